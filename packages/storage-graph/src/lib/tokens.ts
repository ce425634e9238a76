import { SluiceError } from "@sluice/core";
import { abortable, definedMembers } from "@sluice/core/internal";

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

const spareMs = 5 * 60_000;
/** A token with less left is not used any more: clocks differ, and requests take their time. */
const minLifeMs = 60_000;
const patienceMs = 30_000;

/** The token of one scope: asks for one when there is none that is good, once for all requests that wait. */
export class TokenSource {
  readonly #credential: TokenCredential;
  readonly #scope: string;
  #current: AccessToken | undefined;
  #asking: Promise<AccessToken> | undefined;

  constructor(credential: TokenCredential, scope: string) {
    this.#credential = credential;
    this.#scope = scope;
  }

  /** A token that is good for some minutes, from memory where possible. */
  async get(signal?: AbortSignal): Promise<string> {
    if (this.#current !== undefined && !isDue(this.#current)) return this.#current.token;
    const flight = this.#asking ?? this.#ask();
    // while the old token is good, no request waits for a slow credential
    if (this.#current !== undefined && Date.now() < this.#current.expiresOnTimestamp - minLifeMs)
      return this.#current.token;
    return (await abortable(flight, signal)).token;
  }

  /** Gives another token than the one the service refused; `claims` is what it demanded. */
  async renew(refused: string, claims: string | undefined, signal?: AbortSignal): Promise<string> {
    // another request may have renewed it already
    if (this.#current?.token === refused) this.#current = undefined;
    if (this.#current !== undefined && claims === undefined) return this.#current.token;
    const flight = claims === undefined ? (this.#asking ?? this.#ask()) : this.#ask(claims);
    return (await abortable(flight, signal)).token;
  }

  #ask(claims?: string): Promise<AccessToken> {
    const abortSignal = AbortSignal.timeout(patienceMs);
    const options = { abortSignal, enableCae: true, ...definedMembers({ claims }) };
    const flight = abortable(
      Promise.resolve().then(() => this.#credential.getToken([this.#scope], options)),
      abortSignal,
    ).then(
      (token) => {
        if (!token?.token) throw refusal();
        this.#current = token;
        return token;
      },
      (cause: unknown) => {
        throw refusal(cause);
      },
    );
    this.#asking = flight;
    const land = (): void => {
      if (this.#asking === flight) this.#asking = undefined;
    };
    flight.then(land, land);
    return flight;
  }
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
