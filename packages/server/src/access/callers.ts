import { createIdentify, type Caller, type Identity, type IdentifyOptions } from "./principal.ts";

/** Says of a caller what a Sluice works with. */
export interface Callers {
  /** Rejects with `unauthenticated` for a caller that is unknown where the anonymous are refused. */
  readonly identify: (caller: Caller) => Identity | Promise<Identity>;
  /** Address of the client of a request, where it is known. Never throws. */
  readonly addressOf: (caller: Caller) => string | undefined;
}

interface CallersOptions extends IdentifyOptions {
  readonly address: ((caller: Caller) => string | undefined) | undefined;
  readonly onError: (error: unknown) => void;
}

/** Makes the callers of one Sluice. */
export function createCallers({ address, onError, ...options }: CallersOptions): Callers {
  return {
    identify: createIdentify(options),
    addressOf(caller) {
      try {
        return address ? address(caller) : caller.address;
      } catch (error) {
        onError(error);
        return undefined;
      }
    },
  };
}
