import { createSessionMemory } from "./session-memory.ts";
import type { RpcCall } from "@sluice/core";

const maxLength = 1_024;

/**
 * Remembers what legacy clients declared in fields that the SDK drops, when they opened their
 * session. The oldest of 10,000 sessions is forgotten first, of 1,000 sessions of one owner that owner's: nothing is known of
 * it then. A declaration that is longer than 1 KiB of JSON counts as none.
 */
export interface SessionCapabilities {
  /** Notes the declaration of an `initialize` that opened `sessionId`. */
  remember(call: Pick<RpcCall, "params">, sessionId: string | null, owner?: string): void;
  /** The declaration of a session, as client capabilities; `null` where it made none, `undefined` where nothing is known. */
  of(sessionId: string | null): object | null | undefined;
  forget(sessionId: string): void;
}

/** Makes an empty memory of what `pick` takes out of client capabilities, if anything. */
export function createSessionCapabilities(
  pick: (capabilities: Readonly<Record<string, unknown>>) => object | undefined,
): SessionCapabilities {
  const sessions = createSessionMemory<object | null>();
  return {
    remember({ params }, sessionId, owner = "") {
      if (sessionId === null) return;
      const { capabilities } = (params ?? {}) as { capabilities?: unknown };
      const isObject = typeof capabilities === "object" && capabilities !== null;
      const declared = isObject
        ? pick(capabilities as Readonly<Record<string, unknown>>)
        : undefined;
      const isShort = declared !== undefined && JSON.stringify(declared).length <= maxLength;
      sessions.set(sessionId, isShort ? declared : null, owner);
    },
    of: (sessionId) => (sessionId === null ? undefined : sessions.get(sessionId)),
    forget: (sessionId) => sessions.delete(sessionId),
  };
}
