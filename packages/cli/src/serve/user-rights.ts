import type { Principal } from "@sluice/core";
import type { AccessDecision, AccessRule } from "@sluice/server";

/** `list`: see names; `read`: read, download and link; `upload`: send files to the server, and have models save there. */
export const userScopes = ["list", "read", "upload"] as const;

type UserScope = (typeof userScopes)[number];

/** What a user may do. */
export interface UserRights {
  readonly scopes: readonly UserScope[];
  /** Canonical URIs that end in a slash: only what is below one of them exists for the user. Default: all mounts. */
  readonly folders?: readonly string[] | undefined;
}

/** A user with a token of its own. */
interface TokenUser extends UserRights {
  readonly name: string;
  /** Digest of the token, in lower-case hex. */
  readonly sha256: string;
}

/** Users whose tokens an issuer signs. All of them have the same rights. */
export interface JwtUsers extends UserRights {
  /** As in `iss`. */
  readonly issuer: string;
  /** One of `aud`. */
  readonly audience: string;
  /** URL of the issuer's keys (RFC 7517). */
  readonly jwks: string;
}

/** Users of a server. */
export interface UserTable {
  readonly tokens?: readonly TokenUser[] | undefined;
  readonly jwt?: JwtUsers | undefined;
}

/** Issuer of users with a token of their own. No JSON Web Token has it: an issuer there is a URL. */
export const tokenIssuer = "sluice serve";

/** The rights of a principal; `undefined` for one that is not in the table. */
export function rightsOf(
  { tokens = [], jwt }: UserTable,
  principal: Principal | undefined,
): UserRights | undefined {
  if (!principal) return undefined;
  if (principal.issuer === jwt?.issuer) return jwt;
  if (principal.issuer !== tokenIssuer) return undefined;
  return tokens.find(({ name }) => name === principal.subject);
}

/** Decides by folders and scopes of the table: the redemption of a link has no scopes of a request. */
export function accessBy(table: UserTable): AccessRule {
  return (principal, uri, action): AccessDecision => {
    const rights = rightsOf(table, principal);
    if (!rights || !(rights.folders?.some((folder) => uri.startsWith(folder)) ?? true))
      return "hide";
    const { scopes } = rights;
    if (scopes.includes(action === "list" ? "list" : "read")) return "allow";
    // a user that may list it knows that it is there
    return scopes.includes("list") ? "deny" : "hide";
  };
}
