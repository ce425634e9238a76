import type { RecordTerms } from "../contract/state-store.ts";

/** Sessions that something is bound to, and which of them have ended. Times are unix milliseconds. */
export interface BoundSessions {
  /** False when the map is full of live sessions of other owners. */
  bind(session: string, terms: RecordTerms): boolean;
  /** Marks a session that is known; others leave nothing behind. */
  end(session: string, now: number): void;
  isOver(session: string, now: number): boolean;
}

/**
 * Makes the map. At its bound an owner's oldest session is forgotten for its new one: no owner can
 * push out a session of another.
 */
export function createBoundSessions(bounds: {
  readonly maxSessions: number;
  readonly maxPerOwner: number;
}): BoundSessions {
  const { maxSessions, maxPerOwner } = bounds;
  const sessions = new Map<string, BoundSession>();
  const owners = new Map<string, Set<string>>();
  let sweptAt = -Infinity;

  function forget(session: string): void {
    const { owner } = sessions.get(session)!;
    sessions.delete(session);
    const ownSessions = owners.get(owner)!;
    ownSessions.delete(session);
    if (ownSessions.size === 0) owners.delete(owner);
  }

  function known(session: string, now: number): BoundSession | undefined {
    const found = sessions.get(session);
    return found && found.expiresAt > now ? found : undefined;
  }

  function sweep(now: number): void {
    // a sweep visits every session: once a second at most
    if (Math.abs(now - sweptAt) < sweepPauseMs) return;
    sweptAt = now;
    for (const [session, { expiresAt }] of sessions) if (expiresAt <= now) forget(session);
  }

  return {
    bind(session, { owner, now, expiresAt }) {
      const before = known(session, now);
      if (before) {
        before.expiresAt = Math.max(before.expiresAt, expiresAt);
        return true;
      }
      if (sessions.has(session)) forget(session);
      const ownSessions = owners.get(owner);
      if (ownSessions && ownSessions.size >= maxPerOwner)
        forget(ownSessions.values().next().value!);
      if (sessions.size >= maxSessions) sweep(now);
      if (sessions.size >= maxSessions) return false;
      sessions.set(session, { owner, expiresAt, isOver: false });
      owners.set(owner, (owners.get(owner) ?? new Set()).add(session));
      return true;
    },
    end(session, now) {
      const found = known(session, now);
      if (found) found.isOver = true;
    },
    isOver: (session, now) => known(session, now)?.isOver ?? false,
  };
}

interface BoundSession {
  readonly owner: string;
  expiresAt: number;
  isOver: boolean;
}

const sweepPauseMs = 1_000;
