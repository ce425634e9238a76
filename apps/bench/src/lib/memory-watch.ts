import { MiB } from "./bench.ts";

/** Something whose memory can be read. */
export interface Resident {
  rssBytes(): number;
}

/** How long a program that is watched does nothing at first, in milliseconds. */
export const idleMs = 400;

/** Memory over time. */
export interface MemoryTrace {
  /** The least while nothing was done: before, what loading left behind is still being collected. */
  readonly idleMiB: number;
  readonly peakMiB: number;
  /** Seconds since the start of the watch, and MiB. */
  readonly points: readonly (readonly [seconds: number, mib: number])[];
}

/** Samples the memory of `resident` every `everyMs` until the returned function is called. */
export function watchMemory(resident: Resident, everyMs = 25): () => MemoryTrace {
  const startedAt = performance.now();
  const points: [number, number][] = [];
  const look = (): void => {
    try {
      points.push([(performance.now() - startedAt) / 1000, resident.rssBytes() / MiB]);
    } catch {
      // the process has ended: what was seen so far is the trace
    }
  };
  look();
  const timer = setInterval(look, everyMs);
  return () => {
    clearInterval(timer);
    look();
    const idle = points.filter(([seconds]) => seconds * 1000 < idleMs);
    const working = points.slice(idle.length - 1);
    const mib = (some: typeof points): number[] => some.map(([, value]) => value);
    return { idleMiB: Math.min(...mib(idle)), peakMiB: Math.max(...mib(working)), points };
  };
}
