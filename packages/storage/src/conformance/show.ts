import { inspect } from "node:util";

const maxShown = 500;
const maxKeyShown = 60;

/** A value in one line, and no more of it than a reader takes in. */
export function show(value: unknown): string {
  const text = inspect(value, { breakLength: Infinity, maxArrayLength: 20, maxStringLength: 200 });
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}

/** A call as it is written: `open("a.txt", { ifMatch: 'x' })`. */
export function showCall(name: string, args: readonly unknown[]): string {
  return `${name}(${args.map((arg) => showArgument(arg)).join(", ")})`;
}

/** The rejection of work: its code, or the error if it has none. */
export function showFailure(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === "string" ? code : `an error without a code (${String(error)})`;
}

function showArgument(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
  if (typeof value !== "string") return show(value);
  if (value.length <= maxKeyShown) return JSON.stringify(value);
  return `${JSON.stringify(`${value.slice(0, maxKeyShown)}…`)} of ${value.length} characters`;
}
