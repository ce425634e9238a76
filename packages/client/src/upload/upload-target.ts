import { SluiceError, type FetchLike, type Secret } from "@sluice/core";
import { bearerOf, definedMembers } from "@sluice/core/internal";
import { acceptUrl, type UrlPolicy } from "../trust/accept-url.ts";
import type { HopScope } from "../trust/classify-address.ts";
import type { FormShape } from "./send/multipart.ts";
import type { SessionCredentials } from "../net/request-headers.ts";

/** Where bytes go, after every check that needs no network. */
export interface UploadTarget {
  readonly url: URL;
  readonly method: "POST" | "PUT";
  /** How they travel: the form of SEP-1306, a bare body, or a resumable one. */
  readonly wire: "multipart" | "raw" | "resumable";
  /** `self`: the URL is enough, credentials stay home. */
  readonly auth: "bound" | "self";
  readonly sessionBound: boolean;
  readonly scope: HopScope;
  /** Headers that the server wants back (SEP-2631). */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Name of the file's part, and further parts before it. Default `file` and none (SEP-1306 §5). */
  readonly form?: FormShape | undefined;
}

/** A server's claim of a target, unchecked. */
export type TargetClaim = Omit<UploadTarget, "url" | "scope"> & { readonly url: string };

/** Where bytes may be sent. */
export interface Trust {
  readonly session: ClientSession;
  /** Origins besides the endpoint's own; they never see credentials. */
  readonly trustedOrigins: readonly string[];
}

/**
 * Accepts or refuses a target, with `untrusted`. Nothing is resolved or sent. The server's own origin may be at any
 * address: over TLS, an address inside cannot pretend to be that host, and plain HTTP is for loopback.
 */
export function acceptTarget(claim: TargetClaim, trust: Trust): UploadTarget {
  const { url, standing } = acceptUrl(claim.url, policyOf(trust), { redirect: false });
  return {
    ...claim,
    url,
    scope: standing === "own" ? "any" : { endpoint: trust.session.endpoint },
  };
}

/** Accepts an address that the target itself named for the rest of an upload: of its origin only. */
export function acceptLocation(location: string, { url }: UploadTarget, trust: Trust): URL {
  const accepted = acceptUrl(location, policyOf(trust), { base: url, redirect: true });
  if (accepted.url.origin === url.origin) return accepted.url;
  throw new SluiceError("untrusted", `client: ${url.origin} sends the rest of the file elsewhere`);
}

function policyOf({ session, trustedOrigins }: Trust): UrlPolicy {
  return { endpoint: session.endpoint, trustedOrigins };
}

/**
 * The server that a client is connected to, with the credentials that its transport uses: it watches one connection.
 * A token comes before what the requests carried.
 */
export class ClientSession {
  readonly #token: Secret | undefined;
  #lastCredentials: SessionCredentials;
  readonly endpoint: URL;

  constructor(endpoint: URL, token?: Secret) {
    this.#token = token;
    this.#lastCredentials = { endpoint };
    this.endpoint = endpoint;
  }

  /** The credentials as they are now. */
  async credentials(): Promise<SessionCredentials> {
    const authorization = await bearerOf(this.#token);
    return { ...this.#lastCredentials, ...definedMembers({ authorization }) };
  }

  /** Gives every request to `fetch` as it is, and remembers the credentials of those to the endpoint. */
  watch(fetch: FetchLike): FetchLike {
    return (input, init) => {
      // discovery and sign-in go through the same fetch, to other addresses
      if (new URL(input).href === this.endpoint.href) {
        const headers = new Headers(init?.headers);
        this.#lastCredentials = {
          endpoint: this.endpoint,
          authorization: headers.get("authorization") ?? undefined,
          sessionId: headers.get("mcp-session-id") ?? undefined,
        };
      }
      return fetch(input, init);
    };
  }
}
