import type { AuthInfo } from "@modelcontextprotocol/server";
import { SluiceError, principalTag, type Principal } from "@sluice/core";
import { createSha256 } from "@sluice/core/internal";

/** A caller, as the transport saw it. Nothing in it is verified but `authInfo`. */
export interface Caller {
  /** Access token that the app's middleware verified. */
  readonly authInfo?: AuthInfo | undefined;
  /**
   * Address of the client as the transport knows it: IPv4 in dotted form, or IPv6 in its canonical form without a
   * zone. Behind proxies it is theirs unless `clientAddress` says how many they are. Absent if it is not known.
   */
  readonly address?: string | undefined;
  /** `Mcp-Session-Id`, in session revisions only. */
  readonly sessionId?: string | undefined;
  /** A request header by its lower-case name; `undefined` without an HTTP request. */
  readonly header: (name: string) => string | undefined;
}

/**
 * Gives the principal of a caller. A caller for which it gives `undefined` is refused unless `anonymous` is set. A client id
 * alone names no principal.
 *
 * Rules see the `scopes` and `claims` that it gives; take them from what was verified, never from a header that clients
 * can send. If it leaves out `scopes` or `claims`, rules get those of the access token (`authInfo.scopes`,
 * `authInfo.extra`), but only if the principal is the token's subject: `subject` equals `extra.sub` (or `clientId` if
 * there is no `sub`), and `issuer` equals `extra.iss` if there is one. Otherwise rules get none: a gateway's token says
 * nothing about the user behind it. If something is added, rules get a new object with only the members of {@link
 * Principal}: do not key a cache by it.
 */
export type PrincipalResolver = (
  caller: Caller,
) => Principal | undefined | Promise<Principal | undefined>;

/** The number of trusted proxies in front, whose `X-Forwarded-For` transports read, or what knows the address of a client. */
export type ClientAddress = number | ((caller: Caller) => string | undefined);

/** The principal of a caller and what follows for download URLs. */
export interface Identity {
  /** Absent for the anonymous. */
  readonly principal?: Principal;
  /** A download URL may be made: bound to the principal, or self-authenticating for the anonymous. */
  readonly mayMint: boolean;
  /** Longest life of what is made for the caller, in milliseconds: `Infinity` if its access token does not expire. */
  readonly maxTtlMs: number;
  /**
   * Opaque tag of the principal, without its session. Records in the state store count in its share.
   * Absent for the anonymous, and for a bearer token or session that nothing has verified: every caller can invent those.
   */
  readonly owner?: string;
}

/** Says of a caller what a Sluice works with. */
export interface Callers {
  /** Rejects with `unauthenticated` for a caller that is unknown where the anonymous are refused. */
  readonly identify: (caller: Caller) => Identity | Promise<Identity>;
  /** Address of the client of a request, where it is known. Never throws. */
  readonly addressOf: (caller: Caller) => string | undefined;
}

/** Longest life of what is made for a token or a session that no resolver has verified, in milliseconds. */
export const unverifiedTtlMs = 300_000;

interface IdentifyOptions {
  readonly principal: PrincipalResolver | undefined;
  readonly anonymous: boolean | undefined;
  readonly isLoopback: boolean;
  readonly onWarning: (message: string) => void;
}

interface CallersOptions extends IdentifyOptions {
  readonly clientAddress: ClientAddress;
  readonly onError: (error: unknown) => void;
}

/** Makes what a Sluice knows of its callers: identity and address. */
export function createCallers({ clientAddress, onError, ...options }: CallersOptions): Callers {
  return {
    identify: createIdentify(options),
    addressOf(caller) {
      try {
        return typeof clientAddress === "function" ? clientAddress(caller) : caller.address;
      } catch (error) {
        onError(error);
        return undefined;
      }
    },
  };
}

/** Makes the function that identifies callers. It rejects those that it cannot identify. */
export function createIdentify(options: IdentifyOptions): Callers["identify"] {
  const { principal: resolve, isLoopback, onWarning } = options;
  const anonymous = options.anonymous ?? (resolve === undefined && isLoopback);
  const unidentified: Identity = { mayMint: anonymous, maxTtlMs: Infinity };
  let warned = false;

  function identityOfResolved(principal: Principal | undefined, caller: Caller): Identity {
    if (principal) {
      const token = isSubjectOf(principal, caller.authInfo) ? caller.authInfo : undefined;
      const whole = withTokenClaims(principal, caller.sessionId, token);
      return withOwner(identityOf(whole, caller, Infinity), principal);
    }
    if (anonymous) return unidentified;
    throw new SluiceError("unauthenticated", "sluice: caller unknown to the principal resolver");
  }

  return (caller) => {
    if (resolve) {
      const principal = resolve(caller);
      return principal instanceof Promise
        ? principal.then((settled) => identityOfResolved(settled, caller))
        : identityOfResolved(principal, caller);
    }
    const token = caller.authInfo?.token ?? bearerToken(caller.header("authorization"));
    if (token !== undefined) {
      if (!warned) {
        warned = true;
        onWarning(
          "no principal resolver: download URLs are bound to the access token itself and end when it is refreshed; " +
            "pass principal to createSluice",
        );
      }
      // the same whether middleware verified the token or only the header is there
      const principal = { issuer: "", subject: digestOf(token), clientId: "" };
      const whole = withTokenClaims(principal, caller.sessionId, caller.authInfo);
      const identity = identityOf(whole, caller, unverifiedTtlMs);
      return caller.authInfo ? withOwner(identity, principal) : identity;
    }
    // a session id is a routing fact, not authentication: good enough on one's own machine only
    const { sessionId } = caller;
    if (sessionId !== undefined && isLoopback)
      return identityOf(
        { issuer: "", subject: "", clientId: "", sessionId },
        caller,
        unverifiedTtlMs,
      );
    return unidentified;
  };
}

function identityOf(principal: Principal, caller: Caller, maxTtlMs: number): Identity {
  return { principal, mayMint: true, maxTtlMs: Math.min(maxTtlMs, accessTokenLeftMs(caller)) };
}

/** Whether a verified access token is of this principal: only then do its scopes and claims speak of it. */
function isSubjectOf({ issuer, subject }: Principal, token: AuthInfo | undefined): boolean {
  if (!token || subject === "") return false;
  const { sub = token.clientId, iss = issuer } = token.extra ?? {};
  return sub === subject && iss === issuer;
}

/** The principal in its session, with what the token says of it. Made anew only where something is added. */
function withTokenClaims(
  principal: Principal,
  sessionId: string | undefined,
  token: AuthInfo | undefined,
): Principal {
  const { scopes = token?.scopes, claims = token?.extra } = principal;
  const isComplete = scopes === principal.scopes && claims === principal.claims;
  if (sessionId === undefined && isComplete) return principal;
  const { issuer, subject, clientId, sessionId: own } = principal;
  return { issuer, subject, clientId, sessionId: sessionId ?? own, scopes, claims };
}

/** The identity with an `owner`: its records count in a share of their own. */
function withOwner(identity: Identity, principal: Principal): Identity {
  return principal.subject === "" ? identity : { ...identity, owner: tagOf(principal)! };
}

/**
 * Tag of a principal for records, counters and revocation; absent for the anonymous. The sessions
 * of one subject have one tag.
 */
export function tagOf(principal: Principal | undefined): string | undefined {
  if (!principal) return undefined;
  const { issuer, subject, clientId } = principal;
  return principalTag(subject === "" ? principal : { issuer, subject, clientId });
}

function digestOf(text: string): string {
  const hash = createSha256();
  hash.update(new TextEncoder().encode(text));
  return hash.digest();
}

function bearerToken(header: string | undefined): string | undefined {
  return /^bearer +([^\s,]+) *$/i.exec(header ?? "")?.[1];
}

function accessTokenLeftMs({ authInfo }: Caller): number {
  if (authInfo?.expiresAt === undefined) return Infinity;
  return authInfo.expiresAt * 1_000 - Date.now();
}
