import { resourceTag, tokenLifetimes } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import type { Identity } from "./principal.ts";

/** Notes that something is bound to the session of an identity, if it has one. */
export type BindSession = (identity: Pick<Identity, "principal" | "owner">) => Promise<void>;

/** Binding again within this time asks the store nothing. */
const knownMs = 600_000;
const maxKnown = 10_000;
/** Beyond the longest life of what was bound while the session was known, for clocks that differ. */
const marginMs = 60_000;

/**
 * Makes the function that tells the store that something is bound to a session, so that its end will be remembered. A
 * process says so every ten minutes at most for each of the last 10,000 sessions. Rejects with errors of the store.
 */
export function bindTo(state: StateStore): BindSession {
  const knownUntil = new Map<string, number>();
  return async ({ principal, owner = "" }) => {
    const { sessionId } = principal ?? {};
    if (sessionId === undefined) return;
    const session = sessionTag(sessionId);
    const now = Date.now();
    if ((knownUntil.get(session) ?? 0) > now) return;
    const expiresAt = now + knownMs + tokenLifetimes.download.bound.maxTtlMs + marginMs;
    await state.bindSession(session, { now, expiresAt, owner });
    knownUntil.delete(session);
    if (knownUntil.size >= maxKnown) knownUntil.delete(knownUntil.keys().next().value!);
    knownUntil.set(session, now + knownMs);
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
