import type { LookupFunction } from "node:net";
import { createPublicLookup, ensurePublic } from "@sluice/client/internal";
import { SluiceError, type FetchLike } from "@sluice/core";
import { isLoopbackHost, readJson } from "@sluice/core/internal";
import { fetch as undiciFetch, type Dispatcher } from "undici";
import { isMembers, membersOf } from "../../messages/messages.ts";
import { createConnections, serverFetch } from "../connections.ts";

/** The calls of one sign-in, to the server and its authorization server. */
interface SignInCalls {
  readonly fetch: FetchLike;
  /**
   * Throws `unavailable` if tokens could not be refreshed now and may be later: there is no reason to sign in again.
   */
  ensureRefreshed(): void;
  /** The first address that was refused: what comes of it later says less. */
  readonly refusal: SluiceError | undefined;
}

const connectMs = 10_000;
const answerMs = 30_000;

let publicConnections: Dispatcher | undefined;

/** Lets addresses take part in a sign-in, or refuses them. */
export type PlaceGuard = Pick<SignInPlaces, "ensure" | "fetch">;

/**
 * Which addresses a server may name for a sign-in: the server's own origin and those that the user trusts, wherever
 * they are. A server on this machine may name others on it; any other server names `https:` at public addresses alone.
 */
export class SignInPlaces {
  readonly #server: URL;
  readonly #trustedOrigins: readonly string[];
  readonly #lookup: LookupFunction;
  readonly #isLocal: boolean;

  constructor(
    server: URL,
    trustedOrigins: readonly string[] = [],
    lookup: LookupFunction = createPublicLookup(),
  ) {
    this.#server = server;
    this.#trustedOrigins = trustedOrigins;
    this.#lookup = lookup;
    this.#isLocal = isLoopbackHost(server.hostname);
  }

  /** Throws `untrusted` for a page or an endpoint that may not take part. */
  ensure(url: URL): void {
    if (url.username !== "" || url.password !== "") throw refusal(url, "holds credentials");
    if (url.protocol !== "https:" && !(url.protocol === "http:" && isLoopbackHost(url.hostname)))
      throw refusal(url, "is not https:");
    if (this.#isNear(url)) return;
    if (url.protocol !== "https:" || isLoopbackHost(url.hostname))
      throw refusal(url, "leads to this machine");
    if (!this.#isLocal) ensurePublic(url.hostname);
  }

  /** One request, without following a redirect. The address that is connected to is checked. */
  async fetch(input: string | URL, init?: RequestInit): Promise<Response> {
    const url = new URL(input);
    this.ensure(url);
    const options = { ...init, redirect: "manual" } as const;
    if (this.#isLocal || this.#isNear(url)) return serverFetch(url, options);
    publicConnections ??= createConnections({
      connectMs,
      headersMs: answerMs,
      lookup: this.#lookup,
    });
    return undiciFetch(url, { ...(options as object), dispatcher: publicConnections });
  }

  #isNear({ origin, hostname }: URL): boolean {
    return (
      origin === this.#server.origin ||
      this.#trustedOrigins.includes(origin) ||
      (this.#isLocal && isLoopbackHost(hostname))
    );
  }
}

function refusal({ host }: URL, why: string): SluiceError {
  return new SluiceError(
    "untrusted",
    `bridge: ${host}, which the server names to sign in at, ${why}; have its operator correct it, or pass --trust with its origin`,
  );
}

/** Calls that wait at most 30 s, read at most 1 MiB of each response, and follow redirects of a GET alone. */
export function signInFetch(places: PlaceGuard, signal: AbortSignal): SignInCalls {
  let fault: string | undefined;
  let refusedFault: SluiceError | undefined;

  async function send(input: string | URL, init: RequestInit): Promise<Response> {
    let url = new URL(input);
    for (let hopsLeft = maxRedirects; ; hopsLeft--) {
      const response = await places.fetch(url, init);
      const location = response.headers.get("location");
      if (!redirects.has(response.status) || location === null) return response;
      await response.body?.cancel();
      // a code or a refresh token goes nowhere else
      if ((init.method ?? "GET") !== "GET" || hopsLeft === 0)
        throw refusal(url, "redirects what it was sent");
      url = URL.canParse(location, url.href) ? new URL(location, url) : url;
    }
  }

  return {
    async fetch(input, init = {}) {
      const { body } = init;
      const isRefresh =
        body instanceof URLSearchParams && body.get("grant_type") === "refresh_token";
      const ends = [signal, AbortSignal.timeout(answerMs), init.signal].filter((each) => !!each);
      try {
        const response = await send(input, { ...init, signal: AbortSignal.any(ends) });
        if (isRefresh && passing.has(response.status)) fault = `HTTP ${response.status}`;
        return await whole(response);
      } catch (error) {
        signal.throwIfAborted();
        const cause = error instanceof Error && SluiceError.is(error.cause) ? error.cause : error;
        if (SluiceError.is(cause) && cause.code === "untrusted") refusedFault ??= cause;
        if (isRefresh) fault = "it does not answer";
        throw error;
      }
    },
    ensureRefreshed() {
      if (fault === undefined) return;
      throw new SluiceError(
        "unavailable",
        `bridge: the sign-in could not be refreshed (${fault}): call again later`,
      );
    },
    get refusal() {
      return refusedFault;
    },
  };
}

const maxRedirects = 5;
const redirects: ReadonlySet<number> = new Set([301, 302, 303, 307, 308]);
const maxBytes = 2 ** 20;
/** Statuses that say nothing of the refresh token. */
const passing: ReadonlySet<number> = new Set([429, 502, 503, 504]);

/**
 * The SDK reads the errors of an authorization server from responses of the platform's own class only, and writes bodies that
 * it does not understand to standard error: of a refusal it gets the code alone.
 */
async function whole({ status, body }: Response): Promise<Response> {
  const chunks: Uint8Array[] = [];
  let bytes = 0;
  for await (const chunk of body ?? []) {
    bytes += chunk.length;
    if (bytes > maxBytes)
      throw new SluiceError("too_large", "bridge: an answer to a sign-in is larger than 1 MiB");
    chunks.push(chunk);
  }
  if (isBodiless(status)) return new Response(null, { status });
  const { value } = readJson(Buffer.concat(chunks).toString());
  if (status >= 400) {
    const error = oauthCode(membersOf(value)["error"]) ?? "server_error";
    return Response.json({ error }, { status });
  }
  if (!isMembers(value))
    throw new SluiceError("protocol", "bridge: an answer to a sign-in is not a JSON object");
  return Response.json(value, { status });
}

/** The code of an error of OAuth; undefined for any other text. */
export function oauthCode(text: unknown): string | undefined {
  return typeof text === "string" && /^[a-z_]{1,40}$/.test(text) ? text : undefined;
}

function isBodiless(status: number): boolean {
  return status === 204 || status === 205 || status === 304;
}
