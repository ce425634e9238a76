/**
 * What every key begins with: the prefix of the deployment and the version of the format. Another version has other
 * keys, so that processes of two versions never misread each other's.
 */
export function keyPrefix({
  prefix = "{sluice}:",
}: {
  readonly prefix?: string | undefined;
}): string {
  return `${prefix}${formatVersion}:`;
}

const formatVersion = 1;

/** Name of the key with the greatest lead that the clock of a process had over that of Redis, in milliseconds. */
export function leadKey(prefix: string): string {
  return `${prefix}lead`;
}

/** Redis forgets a key this much later than it may: clocks differ, and an expired entry counts as expired anyway. */
export const graceMs = 60_000;

/** For how long Redis keeps the key of something that ends then, in milliseconds. */
export function lifeOf(now: number, expiresAt: number): number {
  return Math.max(1, expiresAt - now) + graceMs;
}
