/**
 * Joins strings so that no two lists give the same bytes: each as its UTF-8 after its length in two
 * bytes. `undefined` when one is not a string, has a lone surrogate (several would become one UTF-8
 * sequence) or is longer than 65,535 bytes.
 */
export function encodeFields(...fields: readonly string[]): Uint8Array | undefined {
  const parts: Uint8Array[] = [];
  let length = 0;
  for (const field of fields) {
    if (!isText(field)) return undefined;
    const bytes = encoder.encode(field);
    if (bytes.length > 0xffff) return undefined;
    parts.push(bytes);
    length += 2 + bytes.length;
  }
  const joined = new Uint8Array(length);
  let at = 0;
  for (const bytes of parts) {
    joined[at++] = bytes.length >> 8;
    joined[at++] = bytes.length & 0xff;
    joined.set(bytes, at);
    at += bytes.length;
  }
  return joined;
}

/** True for a string that UTF-8 gives back unchanged: one without lone surrogates. */
export function isText(value: unknown): value is string {
  return typeof value === "string" && !/\p{Surrogate}/u.test(value);
}

const encoder = new TextEncoder();
