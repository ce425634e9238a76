import type { RpcId } from "@sluice/core";
import type { StreamWriter } from "./stream-writer.ts";

/** A call that this process is working on. */
export interface RunningCall {
  readonly writer: StreamWriter;
  readonly sessionId: string;
  /** Tag of the principal, in its session, that made the call. */
  readonly owner: string;
  readonly requestId: RpcId;
  /** Gives the server the answer to one of its questions, at most once each. */
  deliver(question: string, answer: string): Promise<void>;
}
