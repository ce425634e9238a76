/** How sessions were opened, for requests that may run again in a new one. */
export interface SessionOpenings {
  remember(sessionId: string, params: Readonly<Record<string, unknown>>): void;
  of(sessionId: string): Readonly<Record<string, unknown>> | undefined;
  forget(sessionId: string): void;
}

const maxSessions = 10_000;
const maxLength = 4_096;

/**
 * Remembers the `params` of `initialize`. The oldest of 10,000 sessions is forgotten first, and one
 * whose params are longer than 4 KiB of JSON at once: their requests do not run again.
 */
export function createSessionOpenings(): SessionOpenings {
  const sessions = new Map<string, Readonly<Record<string, unknown>>>();
  return {
    remember(sessionId, params) {
      if (JSON.stringify(params).length > maxLength) return;
      if (sessions.size >= maxSessions) sessions.delete(sessions.keys().next().value!);
      sessions.set(sessionId, params);
    },
    of: (sessionId) => sessions.get(sessionId),
    forget: (sessionId) => void sessions.delete(sessionId),
  };
}
