import type { RpcCall } from "./stream-call.ts";

const maxSessions = 10_000;
const maxLength = 1_024;

/**
 * Remembers what legacy clients declared in fields that the SDK drops, when they opened their
 * session. The oldest of 10,000 sessions is forgotten first; its client then
 * counts as one that declared nothing, as does one whose declaration is longer than 1 KiB of JSON.
 */
export interface SessionCapabilities {
  /** Notes the declaration of an `initialize` that opened `sessionId`. */
  remember(call: Pick<RpcCall, "params">, sessionId: string | null): void;
  /** The declaration of a session, as client capabilities. */
  of(sessionId: string | null): unknown;
  forget(sessionId: string): void;
}

/** Makes an empty memory of what `pick` takes out of client capabilities, if anything. */
export function createSessionCapabilities(
  pick: (capabilities: Readonly<Record<string, unknown>>) => object | undefined,
): SessionCapabilities {
  const sessions = new Map<string, unknown>();
  return {
    remember({ params }, sessionId) {
      const { capabilities } = (params ?? {}) as { capabilities?: unknown };
      if (sessionId === null || typeof capabilities !== "object" || capabilities === null) return;
      const declared = pick(capabilities as Readonly<Record<string, unknown>>);
      if (declared === undefined || JSON.stringify(declared).length > maxLength) return;
      if (sessions.size >= maxSessions) sessions.delete(sessions.keys().next().value!);
      sessions.set(sessionId, declared);
    },
    of: (sessionId) => (sessionId === null ? undefined : sessions.get(sessionId)),
    forget: (sessionId) => void sessions.delete(sessionId),
  };
}
