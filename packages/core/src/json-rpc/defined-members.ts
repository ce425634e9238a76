type Optional<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T];

/** An object without its members of `undefined`. */
export type DefinedMembers<T> = { [K in Exclude<keyof T, Optional<T>>]: T[K] } & {
  [K in Optional<T>]?: Exclude<T[K], undefined>;
};

/** Copies an object without the members whose value is `undefined`: JSON has no such value. */
export function definedMembers<T extends object>(members: T): DefinedMembers<T> {
  return Object.fromEntries(
    Object.entries(members).filter(([, value]) => value !== undefined),
  ) as DefinedMembers<T>;
}
