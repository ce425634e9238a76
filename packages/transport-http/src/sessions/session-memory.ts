/** What a process remembers of sessions beside their servers. */
export interface SessionMemory<Value> {
  get(sessionId: string): Value | undefined;
  /** Remembers; at a bound the oldest session of the same owner is forgotten, in a full memory the oldest of all. */
  set(sessionId: string, value: Value, owner: string): void;
  delete(sessionId: string): void;
}

const maxSessions = 10_000;
const maxPerOwner = 1_000;

/**
 * Makes a memory of 10,000 sessions, and of 1,000 of one owner: a flood of one principal pushes out its own. The empty
 * owner, of callers that nothing vouches for, has no bound of its own.
 */
export function createSessionMemory<Value>(): SessionMemory<Value> {
  const sessions = new Map<string, { readonly value: Value; readonly owner: string }>();
  const owners = new Map<string, Set<string>>();

  function forget(sessionId: string): void {
    const session = sessions.get(sessionId);
    if (!session) return;
    sessions.delete(sessionId);
    const own = owners.get(session.owner)!;
    own.delete(sessionId);
    if (own.size === 0) owners.delete(session.owner);
  }

  return {
    get: (sessionId) => sessions.get(sessionId)?.value,
    set(sessionId, value, owner) {
      forget(sessionId);
      const own = owners.get(owner);
      if (owner !== "" && own && own.size >= maxPerOwner) forget(own.values().next().value!);
      if (sessions.size >= maxSessions) forget(sessions.keys().next().value!);
      sessions.set(sessionId, { value, owner });
      owners.set(owner, (owners.get(owner) ?? new Set()).add(sessionId));
    },
    delete: forget,
  };
}
