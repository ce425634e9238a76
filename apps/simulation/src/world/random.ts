/** Random numbers: the same text gives the same ones on every machine. */
export interface Random {
  /** From 0 to below 1. */
  next(): number;
  /** A whole number from `low` to `high`, both included. */
  int(low: number, high: number): number;
  /** True with this probability. */
  chance(probability: number): boolean;
  pick<T>(list: readonly T[]): T;
  /** Fills the bytes, and gives them back. */
  fillBytes<Bytes extends Uint8Array>(bytes: Bytes): Bytes;
}

/** The generator sfc32 (C. Doty-Humphrey), seeded with a text. */
export function createRandom(text: string): Random {
  let [a, b, c, counter] = seedOf(text);

  function next(): number {
    const sum = (a + b + counter) | 0;
    counter = (counter + 1) | 0;
    a = b ^ (b >>> 9);
    b = (c + (c << 3)) | 0;
    c = ((c << 21) | (c >>> 11)) + sum;
    return (sum >>> 0) / 2 ** 32;
  }

  // the first numbers of similar seeds are similar
  for (let round = 0; round < 12; round++) next();
  return {
    next,
    int: (low, high) => low + Math.floor(next() * (high - low + 1)),
    chance: (probability) => next() < probability,
    pick: (list) => list[Math.floor(next() * list.length)]!,
    fillBytes(bytes) {
      for (let at = 0; at < bytes.length; at++) bytes[at] = next() * 256;
      return bytes;
    },
  };
}

/** Four words of a text (cyrb128, by bryc). */
function seedOf(text: string): [number, number, number, number] {
  const words: [number, number, number, number] = [1779033703, 3144134277, 1013904242, 2773480762];
  const factors = [597399067, 2869860233, 951274213, 2716044179] as const;
  for (let at = 0; at < text.length; at++)
    for (const word of [0, 1, 2, 3] as const)
      words[word] =
        words[(word + 1) % 4]! ^ Math.imul(words[word] ^ text.charCodeAt(at), factors[word]);
  for (const word of [0, 1, 2, 3] as const)
    words[word] = Math.imul(words[word] ^ (words[word] >>> (17 - word)), factors[word]);
  return words;
}
