import type { McpHandlerRequestOptions, McpServer } from "@modelcontextprotocol/server";
import { resourceTag } from "@sluice/core";
import type { StateStore } from "@sluice/state";
import { createSessionMemory } from "@sluice/transport-http/internal";
import type { Rerun } from "../stream/rerun.ts";
import { rerunCall } from "./rerun-call.ts";

/** Calls that may be run again, from their start, when the process that worked on them is gone. */
export interface RerunOptions {
  /**
   * Whether this call may run twice. Allow it only where it asks the client the same in the same order, and where what it
   * did before the interruption may be done again.
   */
  readonly allows: (request: {
    readonly method: string;
    readonly params?: Readonly<Record<string, unknown>>;
  }) => boolean;
  /** A new server with the same tools, not connected, for the caller that picked the stream up. */
  readonly server: (
    options: Pick<McpHandlerRequestOptions, "authInfo">,
  ) => McpServer | Promise<McpServer>;
}

/** Lets `withResume` run calls again after a restart: the value of its option `rerun`. */
export function rerunCalls({ allows, server }: RerunOptions): Rerun {
  return {
    open({ state, onError }) {
      const openings = new SessionOpenings(state, onError);
      return {
        remember: (sessionId, initialize, owner) => openings.remember(sessionId, initialize, owner),
        forget: (sessionId) => openings.forget(sessionId),
        async recordOf(sessionId, call) {
          const initialize = allows(call) ? await openings.of(sessionId) : undefined;
          return initialize && { call, initialize };
        },
        async start(interrupted) {
          const { authInfo } = interrupted;
          return rerunCall(interrupted, await server(authInfo ? { authInfo } : {}), onError);
        },
      };
    },
  };
}

/** `params` of an `initialize`. */
type InitializeParams = Readonly<Record<string, unknown>>;

const maxLength = 4_096;
const keepMs = 24 * 3_600_000;

/**
 * Remembers how sessions were opened, for calls that may run again in a new one: here, and for a day in a state store
 * that processes share. At 10,000 sessions the oldest is forgotten here; one with more than 4 KiB of JSON is not
 * remembered. An opening that is not known, also because the store is away or the share of its owner is full, costs
 * only this: calls of its session do not run again.
 */
class SessionOpenings {
  readonly #state: StateStore;
  readonly #onError: (error: unknown) => void;
  readonly #sessions = createSessionMemory<InitializeParams>();

  constructor(state: StateStore, onError: (error: unknown) => void) {
    this.#state = state;
    this.#onError = onError;
  }

  async remember(
    sessionId: string,
    opening: InitializeParams,
    owner: string | undefined = "",
  ): Promise<void> {
    const text = JSON.stringify(opening);
    if (text.length > maxLength) return;
    this.#sessions.set(sessionId, opening, owner);
    if (!this.#state.shared) return;
    const now = Date.now();
    const record = new TextEncoder().encode(text);
    const terms = { now, expiresAt: now + keepMs, owner };
    await this.#state.put(nameOf(sessionId), record, terms).catch(this.#onError);
  }

  async of(sessionId: string): Promise<InitializeParams | undefined> {
    const local = this.#sessions.get(sessionId);
    if (local || !this.#state.shared) return local;
    try {
      const record = await this.#state.get(nameOf(sessionId), Date.now());
      if (!record) return undefined;
      const opening = JSON.parse(new TextDecoder().decode(record)) as InitializeParams;
      this.#sessions.set(sessionId, opening, "");
      return opening;
    } catch (error) {
      this.#onError(error);
      return undefined;
    }
  }

  async forget(sessionId: string): Promise<void> {
    this.#sessions.delete(sessionId);
    if (this.#state.shared)
      await this.#state.take(nameOf(sessionId), Date.now()).catch(this.#onError);
  }
}

/** The store has the tag of a session only: its id is half of a credential. */
function nameOf(sessionId: string): string {
  return `opening ${resourceTag(sessionId)}`;
}
