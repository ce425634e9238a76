import { definedMembers, SluiceError } from "@sluice/core";
import { abortable } from "@sluice/core/async";

/** A bearer token, as `@azure/identity` gives it. */
export interface AccessToken {
  readonly token: string;
  /** Unix milliseconds. */
  readonly expiresOnTimestamp: number;
  /** Unix milliseconds from which on a new one should be asked for. */
  readonly refreshAfterTimestamp?: number;
}

/** Options of a request to a {@link TokenCredential}. */
export interface TokenRequest {
  readonly abortSignal?: AbortSignal;
  /** Claims that the service demands of the next token (continuous access evaluation). */
  readonly claims?: string;
  readonly enableCae?: boolean;
}

/** Gives bearer tokens: any credential of `@azure/identity` fits. It need not cache, the backend does. */
export interface TokenCredential {
  getToken(scopes: string[], options?: TokenRequest): Promise<AccessToken | null>;
}

/** The token of one scope. */
export interface TokenSource {
  /** A token that is good for some minutes, from memory where possible. */
  get(signal?: AbortSignal): Promise<string>;
  /** Gives another token than the one the service refused; `claims` is what it demanded. */
  renew(refused: string, claims: string | undefined, signal?: AbortSignal): Promise<string>;
}

const spareMs = 5 * 60_000;
/** A token with less left is not used any more: clocks differ, and requests take their time. */
const minLifeMs = 60_000;
const patienceMs = 30_000;

/** Asks for a token when there is none that is good, once for all requests that wait. */
export function createTokenSource(credential: TokenCredential, scope: string): TokenSource {
  let current: AccessToken | undefined;
  let asking: Promise<AccessToken> | undefined;

  const ask = (claims?: string): Promise<AccessToken> => {
    const abortSignal = AbortSignal.timeout(patienceMs);
    const options = { abortSignal, enableCae: true, ...definedMembers({ claims }) };
    const flight = abortable(
      Promise.resolve().then(() => credential.getToken([scope], options)),
      abortSignal,
    ).then(
      (token) => {
        if (!token?.token) throw refusal();
        current = token;
        return token;
      },
      (cause: unknown) => {
        throw refusal(cause);
      },
    );
    asking = flight;
    const land = (): void => {
      if (asking === flight) asking = undefined;
    };
    flight.then(land, land);
    return flight;
  };

  return {
    async get(signal) {
      if (current !== undefined && !isDue(current)) return current.token;
      const flight = asking ?? ask();
      // while the old token is good, no request waits for a slow credential
      if (current !== undefined && Date.now() < current.expiresOnTimestamp - minLifeMs)
        return current.token;
      return (await abortable(flight, signal)).token;
    },
    async renew(refused, claims, signal) {
      // another request may have renewed it already
      if (current?.token === refused) current = undefined;
      if (current !== undefined && claims === undefined) return current.token;
      const flight = claims === undefined ? (asking ?? ask()) : ask(claims);
      return (await abortable(flight, signal)).token;
    },
  };
}

function isDue({ expiresOnTimestamp, refreshAfterTimestamp }: AccessToken): boolean {
  return Date.now() >= Math.min(expiresOnTimestamp - spareMs, refreshAfterTimestamp ?? Infinity);
}

function refusal(cause?: unknown): SluiceError {
  return new SluiceError(
    "unauthenticated",
    "graph: the credential gave no token; check its settings and permissions",
    definedMembers({ cause }),
  );
}
