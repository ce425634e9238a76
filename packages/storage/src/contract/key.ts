import { SluiceError } from "@sluice/core";

/** Longest key, in UTF-8 bytes. */
const maxKeyBytes = 1024;

const encoder = new TextEncoder();
// oxlint-disable-next-line no-control-regex -- control characters are what it looks for
const forbidden = /[\u0000-\u001f\u007f-\u009f\\]/u;

/**
 * What is wrong with a key, or `undefined` when it is legal. A key is 1 to 1024 UTF-8 bytes of
 * well-formed Unicode: segments joined by `/`, none of them empty, `.` or `..`, without
 * backslashes and control characters. Everything else is literal text, also `%2F`; keys are
 * compared code unit by code unit, never folded or normalised.
 */
export function checkKey(key: string): string | undefined {
  if (typeof key !== "string") return "is not a string";
  if (key === "") return "is empty";
  if (/\p{Surrogate}/u.test(key)) return "has a lone surrogate";
  if (forbidden.test(key)) return "has a backslash or a control character";
  // a code unit is at most three bytes, so short keys need no encoding
  if (key.length * 3 > maxKeyBytes && encoder.encode(key).length > maxKeyBytes)
    return `is longer than ${maxKeyBytes} bytes`;
  for (const segment of key.split("/")) {
    if (segment === "") return 'has an empty segment (a leading, trailing or doubled "/")';
    if (segment === "." || segment === "..") return `has a "${segment}" segment`;
  }
  return undefined;
}

/**
 * Throws `invalid_argument` unless the key is legal (see {@link checkKey}). `beginOperation`
 * of a plugin calls it. `operation` starts the message: `fs: open`.
 */
export function ensureKey(key: string, operation: string): void {
  const finding = checkKey(key);
  if (finding !== undefined)
    throw new SluiceError("invalid_argument", `${operation} ${quoteKey(key)}: the key ${finding}`);
}

/** A key as it may stand in a message: quoted, escaped, at most about 120 characters. */
export function quoteKey(key: string): string {
  return JSON.stringify(key.length > 120 ? `${key.slice(0, 117)}...` : key);
}
