/** How fast something goes, over its last few seconds. */
export interface Speedometer {
  /** Notes that `bytes` in all were there at `nowMs`. */
  note(bytes: number, nowMs: number): void;
  /** Bytes a second, or `undefined` until there is something to tell. */
  readonly bytesPerSecond: number | undefined;
}

const windowMs = 5_000;
const spacingMs = 100;

/** A speedometer over a sliding window of five seconds; what was there at the first note does not count. */
export function createSpeedometer(): Speedometer {
  const notes: { bytes: number; atMs: number }[] = [];
  let last: { bytes: number; atMs: number } | undefined;
  return {
    note(bytes, nowMs) {
      // fewer bytes than before: the download began anew
      if (last !== undefined && bytes < last.bytes) notes.length = 0;
      last = { bytes, atMs: nowMs };
      if (notes.length === 0 || nowMs - notes.at(-1)!.atMs >= spacingMs) notes.push(last);
      while (notes.length > 2 && nowMs - notes[1]!.atMs >= windowMs) notes.shift();
    },
    get bytesPerSecond() {
      const first = notes[0];
      if (first === undefined || last === undefined || last.atMs <= first.atMs) return undefined;
      return ((last.bytes - first.bytes) / (last.atMs - first.atMs)) * 1000;
    },
  };
}
