import { ensureKnownOptions } from "./known-options.ts";

/** Limits of one thing that clients have, at once unless the option says otherwise; its name says what is counted. */
export interface ClientLimits {
  /** For one principal. */
  readonly perPrincipal?: number;
  /** For one address, of callers without a principal. An IPv6 address counts with its /64. */
  readonly perAddress?: number;
  /** For this process. */
  readonly perProcess?: number;
}

/**
 * Fills in the limits that an option leaves out; `what` names the option, such as `createSluice: limits.streams`. Throws a
 * `TypeError` for anything but an object of limits that exist, and a `RangeError` for one that is not a whole number from 1.
 */
export function readLimits<Limits extends object>(
  what: string,
  given: Partial<Limits> | undefined,
  defaults: Limits,
): Limits {
  if (given === undefined) return defaults;
  if (typeof given !== "object" || given === null)
    throw new TypeError(`${what} must be an object of { ${Object.keys(defaults).join(", ")} }`);
  const complete: Record<string, unknown> = { ...(defaults as Readonly<Record<string, unknown>>) };
  ensureKnownOptions(what, given, complete);
  for (const [name, limit] of Object.entries<unknown>(given)) {
    if (limit === undefined) continue;
    if (!(typeof limit === "number" && Number.isSafeInteger(limit) && limit >= 1))
      throw new RangeError(`${what}.${name} must be a whole number from 1`);
    complete[name] = limit;
  }
  return complete as Limits;
}
