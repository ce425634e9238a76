type Optional<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T];

/** An object without its members of `undefined`. */
export type DefinedMembers<T> = { [K in Exclude<keyof T, Optional<T>>]: T[K] } & {
  [K in Optional<T>]?: Exclude<T[K], undefined>;
};

/** Copies an object without the members whose value is `undefined`: JSON has no such value. */
export function definedMembers<T extends object>(members: T): DefinedMembers<T> {
  // a loop: several of these run for each small download
  const defined: Record<string, unknown> = {};
  for (const name of Object.keys(members)) {
    const value = members[name as keyof T];
    if (value !== undefined) defined[name] = value;
  }
  return defined as DefinedMembers<T>;
}
