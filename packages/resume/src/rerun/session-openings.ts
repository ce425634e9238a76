import { resourceTag } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import { createSessionMemory } from "@sluice/transport-http/handlers";

/** `params` of an `initialize`. */
type InitializeParams = Readonly<Record<string, unknown>>;

/** How sessions were opened, for calls that may run again in a new one. Never rejects. */
export interface SessionOpenings {
  remember(sessionId: string, opening: InitializeParams, owner: string | undefined): Promise<void>;
  of(sessionId: string): Promise<InitializeParams | undefined>;
  forget(sessionId: string): Promise<void>;
}

const maxLength = 4_096;
const keepMs = 24 * 3_600_000;

/**
 * Remembers the `params` of `initialize`: here, and for a day in a state store that processes share. At 10,000 sessions
 * the oldest is forgotten here; one with more than 4 KiB of JSON is not remembered. An opening that is not known, also
 * because the store is away or the share of its owner is full, costs only this: calls of its session do not run again.
 */
export function createSessionOpenings(
  state: StateStore,
  onError: (error: unknown) => void,
): SessionOpenings {
  const sessions = createSessionMemory<InitializeParams>();

  return {
    async remember(sessionId, opening, owner = "") {
      const text = JSON.stringify(opening);
      if (text.length > maxLength) return;
      sessions.set(sessionId, opening, owner);
      if (!state.shared) return;
      const now = Date.now();
      const record = new TextEncoder().encode(text);
      const terms = { now, expiresAt: now + keepMs, owner };
      await state.put(nameOf(sessionId), record, terms).catch(onError);
    },
    async of(sessionId) {
      const local = sessions.get(sessionId);
      if (local || !state.shared) return local;
      try {
        const record = await state.get(nameOf(sessionId), Date.now());
        if (!record) return undefined;
        const opening = JSON.parse(new TextDecoder().decode(record)) as InitializeParams;
        sessions.set(sessionId, opening, "");
        return opening;
      } catch (error) {
        onError(error);
        return undefined;
      }
    },
    async forget(sessionId) {
      sessions.delete(sessionId);
      if (state.shared) await state.take(nameOf(sessionId), Date.now()).catch(onError);
    },
  };
}

/** The store has the tag of a session only: its id is half of a credential. */
function nameOf(sessionId: string): string {
  return `opening ${resourceTag(sessionId)}`;
}
