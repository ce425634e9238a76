import { createSessionMemory } from "./session-memory.ts";
import type { RpcCall } from "./stream-call.ts";

const maxLength = 1_024;

/**
 * Remembers what legacy clients declared in fields that the SDK drops, when they opened their
 * session. The oldest of 10,000 sessions is forgotten first, of 1,000 sessions of one owner that owner's; its client then
 * counts as one that declared nothing, as does one whose declaration is longer than 1 KiB of JSON.
 */
export interface SessionCapabilities {
  /** Notes the declaration of an `initialize` that opened `sessionId`. */
  remember(call: Pick<RpcCall, "params">, sessionId: string | null, owner?: string): void;
  /** The declaration of a session, as client capabilities. */
  of(sessionId: string | null): unknown;
  forget(sessionId: string): void;
}

/** Makes an empty memory of what `pick` takes out of client capabilities, if anything. */
export function createSessionCapabilities(
  pick: (capabilities: Readonly<Record<string, unknown>>) => object | undefined,
): SessionCapabilities {
  const sessions = createSessionMemory<unknown>();
  return {
    remember({ params }, sessionId, owner = "") {
      const { capabilities } = (params ?? {}) as { capabilities?: unknown };
      if (sessionId === null || typeof capabilities !== "object" || capabilities === null) return;
      const declared = pick(capabilities as Readonly<Record<string, unknown>>);
      if (declared === undefined || JSON.stringify(declared).length > maxLength) return;
      sessions.set(sessionId, declared, owner);
    },
    of: (sessionId) => (sessionId === null ? undefined : sessions.get(sessionId)),
    forget: (sessionId) => sessions.delete(sessionId),
  };
}
