import {
  type AuthInfo,
  bearerAuthChallengeResponse,
  verifyBearerToken,
  type VerifyBearerTokenOptions,
} from "@modelcontextprotocol/server";
import {
  createKeyRing,
  createSealer,
  type KeyRing,
  type KeyRingInput,
  resourceTag,
  SluiceError,
} from "@sluice/core";
import { createTextSealer, definedMembers } from "@sluice/core/internal";
import { type FailedRedemptions, problem, problemOf, type Reply } from "@sluice/server/internal";
import type { StateStore } from "@sluice/state";

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

/** Options of {@link createTickets}. */
export interface TicketsOptions {
  /** The ring of the server, or its keys. Every process that issues or takes tickets has the same. */
  readonly keys: KeyRing | KeyRingInput;
  /** Where each ticket is taken once. Shared by all processes that issue or take tickets. */
  readonly state: StateStore;
  /** Public URL of the WebSocket endpoint: a ticket is good only for it. */
  readonly url: string;
  /** Life of a ticket in milliseconds, 1,000 to 60,000. Default 30,000. */
  readonly ttlMs?: number;
}

/** Single-use tickets for browsers, which cannot send a bearer token when they open a WebSocket. */
export interface Tickets {
  /**
   * A ticket for the holder of this access token, verified by you on an ordinary HTTP request. Send it in
   * the body of the response with `Cache-Control: no-store`. Rejects with errors of the state store:
   * `throttled` for an access token with as many live tickets as one owner may have records.
   */
  issue(authInfo: AuthInfo): Promise<{ readonly ticket: string; readonly expiresAt: number }>;
  /** Takes a ticket, once. Rejects with `unauthenticated` for one that is forged, over, or taken. */
  take(ticket: string): Promise<AuthInfo>;
}

/**
 * Makes tickets: sealed tokens with their own purpose. The access token of a ticket is sealed in
 * the state store, so that neither a ticket nor the store by itself tells it.
 */
export function createTickets({ keys, state, url, ttlMs }: TicketsOptions): Tickets {
  const ring = typeof keys === "object" && "derive" in keys ? keys : createKeyRing(keys);
  const sealer = createSealer({ keys: ring, audience: url });
  const records = createTextSealer({ keys: ring, purpose: "ticket", maxLength: 131_072 });

  return {
    async issue(authInfo) {
      const now = Date.now();
      const terms = definedMembers({ key: "websocket", use: "once", now, ttlMs } as const);
      const { token, id, expiresAt } = sealer.seal("connect", terms);
      const record = encoder.encode(records.seal(JSON.stringify(authInfo), [id]));
      // the share that tickets count in: only your resolver knows the subject of a token
      const owner = resourceTag(authInfo.token);
      await state.put(recordOf(id), record, { now, expiresAt: expiresAt + 10_000, owner });
      return { ticket: token, expiresAt };
    },

    async take(ticket) {
      const now = Date.now();
      const id = opened(ticket, now);
      const record = await state.take(recordOf(id), now);
      if (!record) throw refusal();
      const authInfo = JSON.parse(records.unseal(decoder.decode(record), [id])) as AuthInfo;
      const { resource } = authInfo;
      return resource ? { ...authInfo, resource: new URL(resource) } : authInfo;
    },
  };

  function opened(ticket: string, now: number): string {
    try {
      return sealer.unseal("connect", ticket, { now }).id;
    } catch (cause) {
      throw refusal(cause);
    }
  }
}

const encoder = new TextEncoder();
const decoder = new TextDecoder();

function recordOf(id: string): string {
  return `ticket ${id}`;
}

function refusal(cause?: unknown): SluiceError {
  const message = "ws: the ticket is no longer valid; ask for a new one";
  return new SluiceError("unauthenticated", message, { cause });
}
