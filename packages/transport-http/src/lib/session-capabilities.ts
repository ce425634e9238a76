import type { RpcCall } from "./stream-call.ts";

const maxSessions = 10_000;
const maxLength = 1_024;

/**
 * Remembers what legacy clients declared in the literal field of SEP-2532 when they opened their
 * session: the SDK drops it. The oldest of 10,000 sessions is forgotten first; its client then
 * counts as one that declared nothing, as does one whose declaration is longer than 1 KiB of JSON.
 */
export interface SessionCapabilities {
  /** Notes the declaration of an `initialize` that opened `sessionId`. */
  remember(call: RpcCall, sessionId: string | null): void;
  /** The declaration of a session, as client capabilities. */
  of(sessionId: string | null): unknown;
  forget(sessionId: string): void;
}

/** Makes an empty memory. */
export function createSessionCapabilities(): SessionCapabilities {
  const sessions = new Map<string, unknown>();
  return {
    remember({ params }, sessionId) {
      const capabilities = params?.["capabilities"] as { resourceStreaming?: unknown } | undefined;
      const { resourceStreaming } = capabilities ?? {};
      if (sessionId === null || resourceStreaming === undefined) return;
      if (JSON.stringify(resourceStreaming).length > maxLength) return;
      if (sessions.size >= maxSessions) sessions.delete(sessions.keys().next().value!);
      sessions.set(sessionId, { resourceStreaming });
    },
    of: (sessionId) => (sessionId === null ? undefined : sessions.get(sessionId)),
    forget: (sessionId) => void sessions.delete(sessionId),
  };
}
