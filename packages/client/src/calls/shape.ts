/** Tells whether a value that a peer sent is of a type. */
type Shape<T> = (value: unknown) => value is T;

/** The type that a shape checks. */
export type ShapeOf<S> = S extends Shape<infer T> ? T : never;

type MemberShapes = Readonly<Record<string, Shape<unknown>>>;
type OptionalNames<M extends MemberShapes> = {
  [K in keyof M]: undefined extends ShapeOf<M[K]> ? K : never;
}[keyof M];

/** An object with these members, and any others; one that may be undefined may be missing. */
type ObjectOf<M extends MemberShapes> = {
  readonly [K in Exclude<keyof M, OptionalNames<M>>]: ShapeOf<M[K]>;
} & { readonly [K in OptionalNames<M>]?: ShapeOf<M[K]> };

export const isText: Shape<string> = (value): value is string => typeof value === "string";
export const isFlag: Shape<boolean> = (value): value is boolean => typeof value === "boolean";
export const isNumber: Shape<number> = (value): value is number => Number.isFinite(value);
/** A number that counts something. */
export const isCount: Shape<number> = (value): value is number =>
  Number.isSafeInteger(value) && (value as number) >= 0;
/** An object of JSON. */
export const isObject: Shape<Readonly<Record<string, unknown>>> = (
  value,
): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** Text of at most this many UTF-16 units. */
export function isTextTo(maxLength: number): Shape<string> {
  return (value): value is string => isText(value) && value.length <= maxLength;
}

/** One of these values. */
export function isOneOf<const T>(...values: readonly T[]): Shape<T> {
  return (value): value is T => values.includes(value as T);
}

/** The value may be missing. */
export function isOptional<T>(is: Shape<T>): Shape<T | undefined> {
  return (value): value is T | undefined => value === undefined || is(value);
}

/** A list of at most this many values. */
export function isListOf<T>(is: Shape<T>, maxLength: number = Infinity): Shape<readonly T[]> {
  return (value): value is readonly T[] =>
    Array.isArray(value) && value.length <= maxLength && value.every(is);
}

/** An object whose members are all of one type, with names of at most this many UTF-16 units. */
export function isRecordOf<T>(
  is: Shape<T>,
  maxLength: number = Infinity,
): Shape<Readonly<Record<string, T>>> {
  return (value): value is Readonly<Record<string, T>> =>
    isObject(value) &&
    Object.entries(value).every(
      // not a name of its own: it would be a prototype wherever it is copied to
      ([name, member]) => name !== "__proto__" && name.length <= maxLength && is(member),
    );
}

/** An object with these members, and any others. */
export function isShaped<M extends MemberShapes>(members: M): Shape<ObjectOf<M>> {
  return (value): value is ObjectOf<M> =>
    isObject(value) && Object.entries(members).every(([name, is]) => is(value[name]));
}

/** What both versions of the SDK take as the schema of a result. */
interface ResultSchema<T> {
  /** For version 2 (Standard Schema 1). */
  readonly "~standard": {
    readonly version: 1;
    readonly vendor: string;
    readonly validate: (
      value: unknown,
    ) => { readonly value: T } | { readonly issues: readonly Error[] };
  };
  /** For version 1. */
  readonly safeParse: (
    value: unknown,
  ) =>
    | { readonly success: true; readonly data: T }
    | { readonly success: false; readonly error: Error };
}

/** A schema for an SDK's `request`. */
export function schemaOf<T>(is: Shape<T>): ResultSchema<T> {
  const malformed = new TypeError("client: a malformed result");
  return {
    "~standard": {
      version: 1,
      vendor: "sluice",
      validate: (value) => (is(value) ? { value } : { issues: [malformed] }),
    },
    safeParse: (value) =>
      is(value) ? { success: true, data: value } : { success: false, error: malformed },
  };
}
