import type { Transport } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import { runBridge } from "../relay/run-bridge.ts";
import type { Upstream } from "../upstream/upstream.ts";
import type { HostParts, HostSession, OpenedServer } from "./host-session.ts";

/** The bridge of one session, from the moment that its server is opened until all of it is closed. */
export class RunningBridge {
  readonly session: HostSession;
  readonly host: Transport;
  readonly #parts: HostParts;
  #begun: Promise<void> | undefined;
  #ended: Promise<void> | undefined;
  #isClosed = false;

  constructor(session: HostSession, host: Transport, parts: HostParts) {
    this.session = session;
    this.host = host;
    this.#parts = parts;
  }

  /**
   * Opens the server; `host` takes messages then. Rejects when it cannot be opened. `wrap`: what goes around its
   * connections. `onEnd` is called when the bridge has ended, however it did.
   */
  begin(onEnd: () => void, wrap = (upstream: Upstream): Upstream => upstream): Promise<void> {
    this.#begun = this.#open(wrap, onEnd);
    return this.#begun;
  }

  async #open(wrap: (upstream: Upstream) => Upstream, onEnd: () => void): Promise<void> {
    const opened = await this.#parts.open(this.session);
    if (this.#isClosed) {
      await opened.close?.();
      throw new SluiceError("interrupted", "bridge: the session has ended");
    }
    this.#ended = this.#run(opened, wrap(opened.upstream)).finally(onEnd);
    this.#ended.catch((error: unknown) => this.#parts.note(String(error)));
  }

  async #run(opened: OpenedServer, upstream: Upstream): Promise<void> {
    const { limits, note } = this.#parts;
    try {
      await runBridge({ host: this.host, upstream, hooks: opened.hooks, limits, onNote: note });
    } catch (error) {
      note(error instanceof Error ? error.message : String(error));
    } finally {
      await opened.close?.();
    }
  }

  /** Ends it and waits for the end. Never rejects. */
  async close(): Promise<void> {
    this.#isClosed = true;
    await this.#begun?.catch(() => {});
    await this.host.close();
    await this.#ended?.catch(() => {});
  }
}
