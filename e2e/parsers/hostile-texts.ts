import type { Parser } from "./table.ts";

const length = 16_384;

/** A text for a parser. */
export interface HostileText {
  readonly text: string;
  /** Makes the text of the same kind that is four times as long. */
  readonly longer: () => string;
}

/**
 * Texts of 16 KiB for a parser, the same for the same seed: a start, a pump that is repeated, and an end that
 * makes the whole malformed or not.
 */
export function* hostileTexts(
  { starts, symbols, pumps = [] }: Parser,
  count: number,
  seed: number,
): Generator<HostileText, void, undefined> {
  const random = numbers(seed);
  const kept = [...pumps, ...symbols];
  for (const pump of kept)
    for (const start of starts) for (const end of ['="', "\0"]) yield grown(start, pump, end);
  for (let made = 0; made < count; made += 1) {
    const parts = Array.from({ length: 1 + random(4) }, () => symbols[random(symbols.length)]!);
    yield grown(
      starts[random(starts.length)]!,
      parts.join(""),
      ["", "\0", "x", "\n", symbols[random(symbols.length)]!][random(5)]!,
    );
  }
}

function grown(start: string, pump: string, end: string): HostileText {
  const made = (size: number): string =>
    (start + pump.repeat(Math.ceil(size / pump.length))).slice(0, size - end.length) + end;
  return { text: made(length), longer: () => made(4 * length) };
}

/** Numbers below a bound (mulberry32). */
function numbers(seed: number): (below: number) => number {
  let state = seed;
  return (below) => {
    state = (state + 0x6d2b79f5) | 0;
    let mixed = Math.imul(state ^ (state >>> 15), 1 | state);
    mixed = (mixed + Math.imul(mixed ^ (mixed >>> 7), 61 | mixed)) ^ mixed;
    return ((mixed ^ (mixed >>> 14)) >>> 0) % below;
  };
}
