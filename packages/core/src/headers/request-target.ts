/**
 * The characters that routes are compared with: visible ASCII without a backslash and without a
 * fragment.
 */
const originForm = /^\/[!"$-[\]-~]*$/;
/** Spellings that one router resolves and another one compares: empty and dot segments, encoded or not. */
const ambiguous = /\/\/|\/\.\.?(?:\/|$)|%(?:2[ef]|5c)/i;

/**
 * The path of a request target (RFC 9112 §3.2), exactly as it was sent. `undefined` for a target that must be refused:
 * any form but the origin form, and any path that has a second spelling.
 */
export function readTarget(target: string): string | undefined {
  if (!originForm.test(target)) return undefined;
  const query = target.indexOf("?");
  const path = query < 0 ? target : target.slice(0, query);
  return ambiguous.test(path) ? undefined : path;
}
