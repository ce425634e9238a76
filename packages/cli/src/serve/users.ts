import { createHash } from "node:crypto";
import type { AuthInfo } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { AccessRule, Caller } from "@sluice/server";
import { createVerifyJwt } from "./verify-jwt.ts";
import { accessBy, rightsOf, tokenIssuer, type UserTable } from "./user-rights.ts";

/** Admits callers by their tokens, and says what each may do. */
export interface Users {
  /** What a token says of its caller; `undefined` for a token of no user. Rejects with `unavailable` without the issuer's keys. */
  verify(token: string): Promise<AuthInfo | undefined>;
  /** The principal of a caller that was admitted. */
  readonly principalOf: (caller: Pick<Caller, "authInfo">) => Principal | undefined;
  readonly access: AccessRule;
  /** True for callers that may send files. */
  readonly mayUpload: (principal: Principal | undefined) => boolean;
}

/** The SDK requires every token to expire: the last possible date, in seconds. */
export const endOfTime = 8_640_000_000_000;

/** Users of a table. */
export function createUsers(table: UserTable): Users {
  const verifyJwt = table.jwt && createVerifyJwt(table.jwt);
  return {
    async verify(token) {
      // a digest tells nothing by the time of its comparison
      const sha256 = createHash("sha256").update(token).digest("hex");
      const user = table.tokens?.find((entry) => entry.sha256 === sha256);
      if (!user) return verifyJwt?.(token);
      const extra = { iss: tokenIssuer, sub: user.name };
      return { token, clientId: user.name, scopes: [...user.scopes], expiresAt: endOfTime, extra };
    },
    principalOf({ authInfo }) {
      const { iss, sub } = authInfo?.extra ?? {};
      if (typeof iss !== "string" || typeof sub !== "string") return undefined;
      return { issuer: iss, subject: sub, clientId: authInfo?.clientId ?? "" };
    },
    access: accessBy(table),
    mayUpload: (principal) => rightsOf(table, principal)?.scopes.includes("upload") ?? false,
  };
}
