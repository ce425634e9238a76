import { SluiceError } from "@sluice/core";
import { definedMembers } from "@sluice/core/internal";

/** The rules for fetching a URL that the server named. */
export interface UrlPolicy {
  /** The MCP endpoint, if known. */
  readonly endpoint?: URL | undefined;
  /**
   * Origins besides the endpoint's own: exact (`https://cdn.example.com`), or one label left open
   * (`https://*.blob.core.windows.net`). {@link publicHttps} among them: a redirect may lead to any HTTPS origin at a public
   * address, without credentials.
   */
  readonly trustedOrigins: readonly string[];
}

export const publicHttps = "public-https";

/** Where a URL stands. */
export interface UrlHop {
  /** The base of a relative one. */
  readonly base?: URL | undefined;
  /** It is in the response of an accepted address. */
  readonly redirect: boolean;
}

/** A URL that passed, and how it did. */
export interface AcceptedUrl {
  readonly url: URL;
  /** `own`: the endpoint's origin · `trusted`: listed · `public`: any HTTPS origin, at a public address only. */
  readonly standing: "own" | "trusted" | "public";
}

/**
 * Accepts or refuses a URL that the server named, before anything is resolved or sent. Rejects
 * with `untrusted`: a scheme other than HTTPS (plain HTTP is for loopback endpoints and loopback
 * targets), user information, a fragment, spellings on which URL parsers disagree, more than
 * 2,048 characters (8,192 for a redirect: signed storage URLs carry session tokens), and origins
 * outside the trusted ones. Over plain HTTP, `localhost`, `127.0.0.1` and `[::1]` with one port are one
 * origin: the URL is then given with the host of the endpoint.
 */
export function acceptUrl(text: string, policy: UrlPolicy, hop: UrlHop): AcceptedUrl {
  const url = parse(text, hop);
  if (url.username !== "" || url.password !== "") throw refusal("carries user information");
  if (url.hash !== "" || text.includes("#")) throw refusal("carries a fragment");
  if (hop.base?.protocol === "https:" && url.protocol !== "https:")
    throw refusal("leads from HTTPS to plain HTTP");
  const { endpoint, trustedOrigins } = policy;
  const isHere = isLoopbackHttp(url) && isLoopbackHttp(endpoint);
  if (url.protocol !== "https:" && !isHere)
    throw refusal("is not HTTPS; plain HTTP works between loopback addresses");
  // the address at which the server was found, whatever listens at the others
  if (isHere && url.port === endpoint?.port) url.host = endpoint.host;
  if (url.origin === endpoint?.origin) return { url, standing: "own" };
  if (trustedOrigins.some((trusted) => matchesOrigin(url, trusted)))
    return { url, standing: "trusted" };
  if (hop.redirect && trustedOrigins.includes(publicHttps) && isPlainHttps(url))
    return { url, standing: "public" };
  throw refusal(
    `leads to ${url.origin}, not the MCP server's origin${isHere ? " (forwarded? set its public URL)" : ""}; if you trust it, add it to trustedOrigins`,
    "foreign address",
  );
}

function parse(text: string, hop: UrlHop): URL {
  if (text.length > (hop.redirect ? 8_192 : 2_048)) throw refusal("is too long");
  if (!/^[\x21\x23-\x3b\x3d\x3f-\x5b\x5d\x5f\x61-\x7a\x7e]+$/.test(text))
    throw refusal("is malformed");
  const absolute = /^[a-z][a-z0-9+.-]*:/i.test(text);
  if ((absolute || text.startsWith("//")) && !plainAuthority.test(text))
    throw refusal("is not a plain URL");
  if (!absolute && !hop.base) throw refusal("is malformed");
  try {
    return new URL(text, hop.base);
  } catch {
    throw refusal("is malformed");
  }
}

// no percent-encoded host, no user information, nothing that needs interpretation
const plainAuthority = /^(?:https?:)?\/\/(?:[a-z0-9.-]+|\[[0-9a-f:.]+\])(?::\d{1,5})?(?:[/?]|$)/i;

/** True for plain HTTP at an address of this machine. */
export function isLoopbackHttp(url: URL | undefined): boolean {
  return /^http:\/\/(?:localhost|127\.0\.0\.1|\[::1\])(?::|$)/.test(url?.origin ?? "");
}

function isPlainHttps(url: URL): boolean {
  return url.protocol === "https:" && url.port === "";
}

function matchesOrigin(url: URL, trusted: string): boolean {
  const { origin, suffix } = parseTrusted(trusted);
  if (suffix === undefined) return url.origin === origin;
  const label = url.hostname.slice(0, -suffix.length);
  return isPlainHttps(url) && url.hostname.endsWith(suffix) && /^[a-z0-9-]+$/.test(label);
}

/** Throws `invalid_argument` for the first text that is neither an origin nor one with an open label. */
export function ensureTrustedOrigins(origins: readonly string[]): void {
  for (const origin of origins) parseTrusted(origin);
}

/** An exact origin, or the ending of host names of an open one. Neither for {@link publicHttps}, which names none. */
function parseTrusted(text: string): { readonly origin?: string; readonly suffix?: string } {
  if (text === publicHttps) return {};
  const suffix = /^https:\/\/\*(\.[a-z0-9-]+\.[a-z0-9.-]+)$/i.exec(text)?.[1]?.toLowerCase();
  if (suffix !== undefined) return { suffix };
  const url = URL.canParse(text) && !text.includes("*") ? new URL(text) : undefined;
  // a path would be taken for a limit, which it is not
  if (url && /^https?:$/.test(url.protocol) && url.href === `${url.origin}/`)
    return { origin: url.origin };
  throw new SluiceError(
    "invalid_argument",
    `client: ${JSON.stringify(text.slice(0, 200))} is not an origin; write https://cdn.example.com or https://*.example.com`,
  );
}

function refusal(why: string, origin?: string): SluiceError {
  const message = `client: the address ${why}`;
  return new SluiceError("untrusted", message, definedMembers({ origin }));
}
