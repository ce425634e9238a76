/** How far a file is written without a gap, when its blocks land in any order. */
export interface Watermark {
  /** One past the last byte of the gapless part. */
  value(): number;
  /** Records a written block; blocks never overlap. */
  add(start: number, end: number): void;
}

/** A watermark over a file whose first `from` bytes are there. */
export function createWatermark(from = 0): Watermark {
  const ahead = new Map<number, number>();
  let mark = from;
  return {
    value: () => mark,
    add(start, end) {
      ahead.set(start, end);
      for (let next = ahead.get(mark); next !== undefined; next = ahead.get(mark)) {
        ahead.delete(mark);
        mark = next;
      }
    },
  };
}
