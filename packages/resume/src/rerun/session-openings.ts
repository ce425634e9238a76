import { resourceTag, type StateStore } from "@sluice/core";
import { createSessionMemory } from "@sluice/transport-http/handlers";

/** How sessions were opened, for requests that may run again in a new one. Never rejects. */
export interface SessionOpenings {
  remember(sessionId: string, params: Opening, owner: string | undefined): Promise<void>;
  of(sessionId: string): Promise<Opening | undefined>;
  forget(sessionId: string): Promise<void>;
}

/** `params` of an `initialize`. */
type Opening = Readonly<Record<string, unknown>>;

/** What {@link createSessionOpenings} needs. */
export interface SessionOpeningsOptions {
  readonly state: StateStore;
  readonly onError: (error: unknown) => void;
}

const maxLength = 4_096;
const keepMs = 24 * 3_600_000;

/**
 * Remembers the `params` of `initialize`: here, and for a day in a state store that processes share. The oldest
 * of 10,000 sessions is forgotten here first, and one whose params are longer than 4 KiB of JSON is not
 * remembered. What is not known, also because the store is away or its caller's share of it is full, costs no more than this: requests do not
 * run again.
 */
export function createSessionOpenings({ state, onError }: SessionOpeningsOptions): SessionOpenings {
  const sessions = createSessionMemory<Opening>();

  return {
    async remember(sessionId, params, owner = "") {
      const text = JSON.stringify(params);
      if (text.length > maxLength) return;
      sessions.set(sessionId, params, owner);
      if (!state.shared) return;
      const now = Date.now();
      const record = new TextEncoder().encode(text);
      const terms = { now, expiresAt: now + keepMs, owner };
      await state.put(nameOf(sessionId), record, terms).catch(onError);
    },
    async of(sessionId) {
      const known = sessions.get(sessionId);
      if (known || !state.shared) return known;
      try {
        const record = await state.get(nameOf(sessionId), Date.now());
        if (!record) return undefined;
        const params = JSON.parse(new TextDecoder().decode(record)) as Opening;
        sessions.set(sessionId, params, "");
        return params;
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

/** A session's id is half of a credential: the store has its tag. */
function nameOf(sessionId: string): string {
  return `opening ${resourceTag(sessionId)}`;
}
