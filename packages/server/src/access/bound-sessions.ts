import { resourceTag, tokenLifetimes } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import type { Identity } from "./principal.ts";

/**
 * Notes that something is bound to the session of an identity, if it has one. `ttlMs` is its life, in milliseconds.
 * Default and least: that of a download URL, an hour.
 */
export type BindSession = (
  identity: Pick<Identity, "principal" | "owner">,
  ttlMs?: number,
) => Promise<void>;

/** Binding again within this time asks the store nothing. */
const knownMs = 600_000;
const maxKnown = 10_000;
/** Beyond the longest life of what was bound while the session was known, for clocks that differ. */
const marginMs = 60_000;

/** What the store was told of a session, in unix milliseconds. */
interface KnownSession {
  /** From then on it is told again. */
  readonly staleAt: number;
  /** Until then it remembers the end of the session. */
  readonly boundUntil: number;
}

/**
 * Makes the function that tells the store that something is bound to a session, so that its end will be remembered. A
 * process says so every ten minutes at most for each of the last 10,000 sessions, and at once for what lives longer. Rejects with errors of the store.
 */
export function bindTo(state: StateStore): BindSession {
  const knownSessions = new Map<string, KnownSession>();
  return async ({ principal, owner = "" }, ttlMs = 0) => {
    const { sessionId } = principal ?? {};
    if (sessionId === undefined) return;
    const session = sessionTag(sessionId);
    const now = Date.now();
    const lifeMs = Math.max(ttlMs, tokenLifetimes.download.bound.maxTtlMs) + marginMs;
    const noted = knownSessions.get(session);
    if (noted && noted.staleAt > now && noted.boundUntil >= now + lifeMs) return;
    const boundUntil = now + knownMs + lifeMs;
    await state.bindSession(session, { now, expiresAt: boundUntil, owner });
    knownSessions.delete(session);
    if (knownSessions.size >= maxKnown) knownSessions.delete(knownSessions.keys().next().value!);
    knownSessions.set(session, { staleAt: now + knownMs, boundUntil });
  };
}

/** Ends a session. An id that nothing is bound to leaves no record. */
export async function endSession(state: StateStore, sessionId: string): Promise<void> {
  await state.endSession(sessionTag(sessionId), Date.now());
}

/** Whether a process ended a session. */
export function isSessionOver(state: StateStore, sessionId: string): Promise<boolean> {
  return state.isSessionOver(sessionTag(sessionId), Date.now());
}

/** A session's id is half of a credential: the store has its tag. */
function sessionTag(sessionId: string): string {
  return resourceTag(sessionId);
}
