import {
  bearerAuthChallengeResponse,
  verifyBearerToken,
  type AuthInfo,
  type VerifyBearerTokenOptions,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import { problem, problemOf, type FailedRedemptions, type Reply } from "@sluice/server/internal";
import type { Tickets } from "./tickets.ts";

/** Which clients may connect. */
export interface AuthenticationOptions {
  /** How bearer tokens of the upgrade request are verified: options of the SDK's `verifyBearerToken`. */
  readonly bearer?: VerifyBearerTokenOptions;
  /** Tickets for browsers; see {@link createTickets}. */
  readonly tickets?: Tickets;
  /**
   * Let in clients without credentials. Default: on a loopback `url` without `bearer` and
   * `tickets`. Credentials that are wrong are refused all the same.
   */
  readonly anonymous?: boolean;
}

/** Credentials of an upgrade request, and the address of the client where it is known. */
type UpgradeCredentials = Readonly<
  Record<"authorization" | "ticket" | "address", string | undefined>
>;

/** A caller, an anonymous caller, or a refusal. */
export type Authentication =
  | { readonly authInfo: AuthInfo | undefined; readonly refusal?: never }
  | { readonly refusal: Reply; readonly authInfo?: never };

/** Makes the check of credentials. Throws a `TypeError` when no client could ever connect. */
export function createAuthenticate(
  { bearer, tickets, anonymous }: AuthenticationOptions,
  {
    isLoopback,
    failures,
    onError,
  }: {
    readonly isLoopback: boolean;
    readonly failures: FailedRedemptions;
    readonly onError: (error: unknown) => void;
  },
): (credentials: UpgradeCredentials) => Promise<Authentication> {
  const isOpen = anonymous ?? (isLoopback && !bearer && !tickets);
  if (!isOpen && !bearer && !tickets)
    throw new TypeError("createWebSocketHandler: pass bearer or tickets, or anonymous: true");
  const challenge: Reply = problem(401, { headers: ["WWW-Authenticate", challengeOf(bearer)] });

  async function redeem(ticket: string, address: string | undefined): Promise<Authentication> {
    try {
      if (tickets) return { authInfo: await tickets.take(ticket) };
    } catch (error) {
      if (!SluiceError.is(error) || error.code !== "unauthenticated") throw error;
    }
    const limit = await failures.count(address);
    return { refusal: limit ? problemOf(limit) : challenge };
  }

  return async ({ authorization, ticket, address }) => {
    try {
      if (ticket !== undefined) return await redeem(ticket, address);
      if (authorization !== undefined && bearer)
        return { authInfo: await verifyBearerToken(authorization, bearer) };
      return isOpen ? { authInfo: undefined } : { refusal: challenge };
    } catch (error) {
      if (SluiceError.is(error) && error.code === "unauthenticated") return { refusal: challenge };
      const response = bearerAuthChallengeResponse(error, bearer);
      if (response.status >= 500) onError(error);
      const header = response.headers.get("www-authenticate");
      const headers = header === null ? [] : ["WWW-Authenticate", header];
      return { refusal: problem(response.status, { headers }) };
    }
  };
}

function challengeOf(bearer: VerifyBearerTokenOptions | undefined): string {
  const url = bearer?.resourceMetadataUrl;
  return url === undefined ? "Bearer" : `Bearer resource_metadata="${encodeURI(url)}"`;
}
