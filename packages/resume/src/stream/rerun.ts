import type { AuthInfo } from "@modelcontextprotocol/server";
import type { LooseRequest } from "@sluice/core/internal";
import type { StateStore, StreamPage } from "@sluice/state";
import type { RunningCall, StreamWriter } from "./stream-writer.ts";

/** The data to run a call again. */
export interface RerunRecord {
  /** The request of the client, as it came. */
  readonly call: LooseRequest;
  /** `params` of the `initialize` that opened its session. */
  readonly initialize: Readonly<Record<string, unknown>>;
}

/** A call whose process is gone. */
export interface InterruptedCall extends RerunRecord {
  readonly writer: StreamWriter;
  readonly epoch: number;
  readonly sessionId: string;
  readonly owner: string;
  /** The messages and responses so far. */
  readonly page: StreamPage;
  /** The request that picked the stream up. */
  readonly request: Request;
  readonly authInfo: AuthInfo | undefined;
}

/** Runs calls of one endpoint again. */
export interface CallReruns {
  /** Remembers how a session was opened, in the share of its owner. */
  remember(
    sessionId: string,
    initialize: Readonly<Record<string, unknown>>,
    owner: string | undefined,
  ): Promise<void>;
  forget(sessionId: string): Promise<void>;
  /** The data kept for a call that may run again; `undefined` for one that may not. */
  recordOf(sessionId: string, call: LooseRequest): Promise<RerunRecord | undefined>;
  start(call: InterruptedCall): Promise<RunningCall>;
}

/** Lets calls run again. Made by `rerunCalls` of `@sluice/resume/rerun`; its method is for `withResume`. */
export interface Rerun {
  open(endpoint: {
    readonly state: StateStore;
    readonly onError: (error: unknown) => void;
  }): CallReruns;
}
