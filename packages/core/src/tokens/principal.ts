import { createSha256 } from "../bytes/sha256.ts";
import { encodeFields } from "../bytes/length-prefix.ts";

/**
 * The holder of a grant. At least `subject` or `sessionId` is not empty: a client id does not suffice.
 * `scopes` and `claims` say what the caller of one request may claim. They do not belong to the
 * identity: tags, tokens, quotas and records are the same with any of them, and hold none of them.
 */
export interface Principal {
  /** Issuer that vouches for the subject: the `iss` of the access token. */
  readonly issuer: string;
  /** The user or service account: the `sub` of the access token. */
  readonly subject: string;
  /** The OAuth client through which it acts. */
  readonly clientId: string;
  /** `Mcp-Session-Id`, in the protocol revisions with sessions only; a grant for it is bound to that session too. */
  readonly sessionId?: string | undefined;
  /** Verified OAuth scopes of this request. Absent if none were verified. */
  readonly scopes?: readonly string[] | undefined;
  /**
   * Verified claims of this request, such as roles. Absent if none were verified. They can be
   * personal data: write them into no log and no record.
   */
  readonly claims?: Readonly<Record<string, unknown>> | undefined;
}

/**
 * A principal as the opaque tag that records and logs carry (64 hex digits): equal for equal
 * principals on every process and under every key, and nothing in it can be read.
 */
export function principalTag(principal: Principal): string {
  const fields = encodePrincipal(principal, true);
  if (!fields) throw principalError(principal);
  return tag(encodeFields("sluice.v1 principal")!, fields);
}

/** The opaque tag of a resource key or URI for records and logs: 64 hex digits. */
export function resourceTag(key: string): string {
  return tag(encodeFields("sluice.v1 resource")!, new TextEncoder().encode(key));
}

/** The error for a value that is not a principal. Names the members that are wrong, and never what is in them. */
export function principalError(principal: Principal): TypeError {
  const members = ["issuer", "subject", "clientId"] as const;
  const wrong = members.filter((member) => typeof principal[member] !== "string");
  const found =
    wrong.length > 0 ? `; ${wrong.join(" and ")} ${wrong.length > 1 ? "are" : "is"} not` : "";
  return new TypeError(
    `principal: issuer, subject and clientId must be strings ("" if there is none), with a subject or a sessionId that is not empty${found}`,
  );
}

/** The principal's fields, unambiguously joined; `undefined` for an invalid principal. */
export function encodePrincipal(
  principal: Principal,
  withSession: boolean,
): Uint8Array | undefined {
  const { issuer, subject, clientId, sessionId = "" } = principal;
  if (subject === "" && sessionId === "") return undefined;
  return encodeFields(issuer, subject, clientId, withSession ? sessionId : "");
}

function tag(...parts: readonly Uint8Array[]): string {
  const hash = createSha256();
  for (const part of parts) hash.update(part);
  return hash.digest();
}
