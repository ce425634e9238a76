import type { Provider } from "./provider.ts";

/** A provider with its settings checked; a function is its `open`. Throws a `TypeError` or `RangeError` that says what to give. */
export function toProvider(uriOrTemplate: string, given: Provider | Provider["open"]): Provider {
  const provider = typeof given === "function" ? { open: given } : given;
  const what = `sluice.provide: ${JSON.stringify(uriOrTemplate)}`;
  const { open, describe, rewind, maxBytes, stallTimeoutMs } = provider;
  if (typeof open !== "function")
    throw new TypeError(`${what}: give a function that opens the resource, or { open }`);
  if (describe !== undefined && typeof describe !== "function")
    throw new TypeError(`${what}: describe must be a function`);
  if (rewind !== undefined && rewind !== true && typeof rewind !== "function")
    throw new TypeError(`${what}: rewind must be true or a function`);
  if (rewind !== undefined && describe === undefined)
    throw new TypeError(`${what}: rewind needs describe, which tells size and version`);
  if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes > 0))
    throw new RangeError(`${what}: maxBytes must be a whole number from 1; it is ${maxBytes}`);
  if (stallTimeoutMs !== undefined && !(stallTimeoutMs > 0))
    throw new RangeError(
      `${what}: stallTimeoutMs must be more than 0 milliseconds; it is ${stallTimeoutMs}`,
    );
  return provider;
}
