import { keyOf } from "@sluice/core/internal";

/**
 * The key among `keys` that an id of another party stands for: its own, or else that of the same number in its other
 * spelling. Some servers answer "5" where 5 was sent; the official SDKs take that.
 */
export function keyIn(keys: Pick<ReadonlySet<string>, "has">, id: unknown): string | undefined {
  return [keyOf(id), otherKey(id)].find((key) => key !== undefined && keys.has(key));
}

/** The only key of `keys`, for a response that names no request. */
export function onlyKey(keys: ReadonlyMap<string, unknown>, id: unknown): string | undefined {
  const isUnnamed = id === undefined || id === null;
  return isUnnamed && keys.size === 1 ? [...keys.keys()][0] : undefined;
}

/** True for two spellings of one id. */
export function isSameId(one: unknown, other: unknown): boolean {
  return keyOf(one) === keyOf(other) || keyOf(one) === otherKey(other);
}

function otherKey(id: unknown): string | undefined {
  if (typeof id === "number") return keyOf(String(id));
  // the key of a number is its digits
  return typeof id === "string" && /^(?:0|-?[1-9]\d{0,15})$/.test(id) ? id : undefined;
}
