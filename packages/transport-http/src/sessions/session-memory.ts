import type { RpcCall } from "@sluice/core/internal";

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
    const ownSessions = owners.get(session.owner)!;
    ownSessions.delete(sessionId);
    if (ownSessions.size === 0) owners.delete(session.owner);
  }

  return {
    get: (sessionId) => sessions.get(sessionId)?.value,
    set(sessionId, value, owner) {
      forget(sessionId);
      const ownSessions = owners.get(owner);
      if (owner !== "" && ownSessions && ownSessions.size >= maxPerOwner)
        forget(ownSessions.values().next().value!);
      if (sessions.size >= maxSessions) forget(sessions.keys().next().value!);
      sessions.set(sessionId, { value, owner });
      owners.set(owner, (owners.get(owner) ?? new Set()).add(sessionId));
    },
    delete: forget,
  };
}

const maxDeclaration = 1_024;

/**
 * Remembers what legacy clients declared in fields that the SDK drops, when they opened their
 * session. The oldest of 10,000 sessions is forgotten first, of 1,000 sessions of one owner that owner's: nothing is known of
 * it then. A declaration that is longer than 1 KiB of JSON counts as none.
 */
export interface SessionCapabilities {
  /** Notes the declaration of an `initialize` that opened `sessionId`. */
  remember(call: Pick<RpcCall, "params">, sessionId: string | null, owner?: string): void;
  /** The declaration of a session, as client capabilities; `null` if it made none, `undefined` if nothing is known. */
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
      const declaration = isObject
        ? pick(capabilities as Readonly<Record<string, unknown>>)
        : undefined;
      const isShort =
        declaration !== undefined && JSON.stringify(declaration).length <= maxDeclaration;
      sessions.set(sessionId, isShort ? declaration : null, owner);
    },
    of: (sessionId) => (sessionId === null ? undefined : sessions.get(sessionId)),
    forget: (sessionId) => sessions.delete(sessionId),
  };
}
