import {
  createKeyRing,
  createSealer,
  resourceTag,
  SluiceError,
  type KeyRing,
  type KeyRingInput,
} from "@sluice/core";
import { createTextSealer, definedMembers } from "@sluice/core/internal";
import type { StateStore } from "@sluice/state";
import type { AuthInfo } from "@modelcontextprotocol/server";

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
