import { generateKey, type KeyState, type SealingKey } from "@sluice/core";

/** One step of a rotation, and the keys after it. */
export interface Rotation {
  readonly step: "published" | "flipped" | "retired";
  /** Name of the key that the step was about. */
  readonly kid: string;
  readonly keys: readonly SealingKey[];
}

/**
 * The next step of a rotation: a new key is published, so that every process knows it; then it seals, and the old
 * one still opens; then the old one is retired.
 */
export function rotateKeys(keys: readonly SealingKey[]): Rotation {
  const inState = (state: KeyState): SealingKey | undefined =>
    keys.find((key) => (key.state ?? "current") === state);
  const previous = inState("previous");
  if (previous)
    return { step: "retired", kid: previous.kid, keys: keys.filter((key) => key !== previous) };
  const next = inState("next");
  if (!next) {
    const fresh = generateKey({ kid: freeKid(keys), state: "next" });
    return { step: "published", kid: fresh.kid, keys: [...keys, fresh] };
  }
  const successor: Partial<Record<KeyState, KeyState>> = { next: "current", current: "previous" };
  return {
    step: "flipped",
    kid: next.kid,
    keys: keys.map(({ kid, key, state = "current" }) => ({
      kid,
      key,
      state: successor[state] ?? state,
    })),
  };
}

/**
 * The keys without one that must count no more, at once. When it was the one that seals, the next one
 * takes its place, or a new one. `undefined` when there is no key of this name.
 */
export function dropKey(
  keys: readonly SealingKey[],
  kid: string,
): readonly SealingKey[] | undefined {
  const dropped = keys.find((key) => key.kid === kid);
  if (!dropped) return undefined;
  const left = keys.filter((key) => key !== dropped);
  if ((dropped.state ?? "current") !== "current") return left;
  const next = left.find(({ state }) => state === "next");
  if (!next) return [...left, generateKey({ kid: freeKid(keys) })];
  return left.map((key) => (key === next ? { kid: key.kid, key: key.key } : key));
}

/** A name that no key of the ring has: names say nothing, and one may come again when its key is long gone. */
function freeKid(keys: readonly SealingKey[]): string {
  const taken = new Set(keys.map(({ kid }) => kid));
  let number = 1;
  while (taken.has(nameOf(number))) number += 1;
  return nameOf(number);
}

function nameOf(number: number): string {
  return number.toString(36).padStart(2, "k");
}
