const maxPaths = 1000;
const lastMs = 10_000;

/** Paths that were opened a moment ago, so that the system still has the way to them in memory. */
export interface WarmPaths {
  has(path: string): boolean;
  add(path: string): void;
}

/** Remembers at most 1000 paths, each for at most 10 s. */
export function createWarmPaths(): WarmPaths {
  const paths = new Set<string>();
  let since = 0;
  const isOver = (): boolean => performance.now() - since >= lastMs;
  return {
    has: (path) => paths.has(path) && !isOver(),
    add(path) {
      if (paths.size >= maxPaths || isOver()) {
        paths.clear();
        since = performance.now();
      }
      paths.add(path);
    },
  };
}
