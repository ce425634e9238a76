import type { AuthInfo } from "@modelcontextprotocol/server";
import type { RevisionKind } from "@sluice/core/internal";
import type { Transport } from "@modelcontextprotocol/client";
import { SluiceError } from "@sluice/core";
import type { BridgeLimits } from "../messages/limits.ts";
import type { RelayHooks } from "../messages/hooks.ts";
import type { Upstream } from "../upstream/upstream.ts";
import { runBridge } from "../relay/run-bridge.ts";
import { wordsOf } from "../messages/error-words.ts";

/**
 * A session of a host of 2025-11-25 or older. For hosts of 2026-07-28, which have no sessions: requests of one caller
 * and one client, one after the other.
 */
export interface HostSession {
  /** Random. A host of 2026-07-28 does not know it. */
  readonly id: string;
  readonly revision: RevisionKind;
  /** As the option `caller` names it. */
  readonly caller: string;
  /** Header fields of the first request. */
  readonly headers: Headers;
  /** What the handler in front verified. */
  readonly authInfo: AuthInfo | undefined;
}

/** What a request says of its session. */
export type HostFacts = Pick<HostSession, "caller" | "headers" | "authInfo">;

/** What stands behind one session. */
export interface OpenedServer {
  /** For this session alone. */
  readonly upstream: Upstream;
  /** Sees the messages of this session. Default: they pass as they are. */
  readonly hooks?: RelayHooks | undefined;
  /** Called once, after the session has ended and its connection or process is closed. */
  readonly close?: (() => Promise<void> | void) | undefined;
}

/** Opens what stands behind one session. A `SluiceError` that it throws is told to the host. */
export type OpenServer = (session: HostSession) => OpenedServer | Promise<OpenedServer>;

/** What all sessions share. */
export interface HostParts {
  readonly open: OpenServer;
  readonly limits: Partial<BridgeLimits>;
  readonly note: (line: string) => void;
  /** Ends a bridge, which the end of all waits for. */
  readonly end: (bridge: { close(): Promise<void> }) => void;
}

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
      note(wordsOf(error));
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
