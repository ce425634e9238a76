import picomatch from "picomatch";

/** Tells whether a path below a folder, with `/`, is wanted. */
export type NameFilter = (path: string) => boolean;

/** `*` and `?` end at slashes, `**` does not; names that begin with a dot are like others. */
const rules = { dot: true, noextglob: true, nonegate: true, windows: false } as const;

/** A glob for a whole path. */
export function globFilter(pattern: string): NameFilter {
  return picomatch(pattern, rules);
}

/**
 * The filter of `--include` and `--exclude`, as rclone reads them: a pattern matches the end of a path from a slash on, or all
 * of it if it begins with `/`; one that ends with `/` is everything below such a folder. A path is wanted if it matches one of
 * `include`, or there are none, and none of `exclude`.
 */
export function pathFilter(
  include: readonly string[] = [],
  exclude: readonly string[] = [],
): NameFilter {
  const included = include.map(endFilter);
  const excluded = exclude.map(endFilter);
  return (path) =>
    (included.length === 0 || included.some((matches) => matches(path))) &&
    !excluded.some((matches) => matches(path));
}

function endFilter(pattern: string): NameFilter {
  const whole = pattern.endsWith("/") ? `${pattern}**` : pattern;
  return globFilter(whole.startsWith("/") ? whole.slice(1) : `**/${whole}`);
}

/** How many folders deep a glob can match at most: its alternatives in braces may differ, and have their slashes too. */
export function globDepth(pattern: string): number {
  return pattern.includes("**") ? Infinity : pattern.split("/").length - 1;
}

/** Offset of the first part of a path that has a sign of a glob; `undefined` if there is none. */
export function globStart(path: string): number | undefined {
  const sign = path.search(/[*?{[]/);
  return sign < 0 ? undefined : path.lastIndexOf("/", sign) + 1;
}
