import type { Source } from "@sluice/core";
import { definedMembers, discardSource } from "@sluice/core/internal";

/** An HTTP answer as plain values: any transport can send it, and none has to build web objects for it. */
export interface Reply {
  readonly status: number;
  /** Names and values in turn, as `writeHead` of Node takes them. All of it is visible ASCII. */
  readonly headers: readonly string[];
  /** The whole body, when it is a short text. */
  readonly text?: string;
  /** The body, when it is bytes of a resource. The receiver of a reply must send these or end them. */
  readonly transfer?: ReplyTransfer;
}

/** Bytes on their way out. */
export interface ReplyTransfer {
  /** Use one of its faces, once. */
  readonly source: Source;
  /** Bytes that were promised as `Content-Length`; absent when the size is unknown. */
  readonly bytes?: number;
  /** Says how it went. Call it once, after the last byte or instead of it; later calls change nothing. */
  end(result: TransferResult): void;
}

/** How a transfer went. */
export interface TransferResult {
  /**
   * `complete`: every byte was handed over. `offloaded`: a proxy in front sends them, and this
   * process does not see how that goes. `aborted`: the receiver went away. `failed`: the source broke.
   */
  readonly outcome: "complete" | "offloaded" | "aborted" | "failed";
  /** Bytes handed to the network, or left to the proxy. */
  readonly bytes: number;
  /** What broke. For logs only. */
  readonly error?: unknown;
}

/** Discards what a reply would have sent. */
export function discardReply(reply: Reply, error?: unknown): void {
  const { transfer } = reply;
  if (!transfer) return;
  void discardSource(transfer.source, error);
  transfer.end({ outcome: "aborted", bytes: 0, ...definedMembers({ error }) });
}
