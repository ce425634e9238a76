import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { cancelledBy } from "@sluice/core/internal";

/** `error.data.reason` of a request whose answer was lost with its connection. */
const lostReason = "connection_lost";

/** The unanswered requests of one connection, in both directions. */
export class PendingRequests {
  readonly #ours = new Set<RequestId>();
  readonly #theirs = new Set<RequestId>();

  sent(message: JSONRPCMessage): void {
    note(message, this.#ours, this.#theirs);
  }

  received(message: JSONRPCMessage): void {
    note(message, this.#theirs, this.#ours);
  }

  /** False for a response to a request that came on an earlier connection, where it is not waited for. */
  mayAnswer(message: JSONRPCMessage): boolean {
    return "method" in message || this.#theirs.has(message.id!);
  }

  /** Forgets everything; gives an error for each request of ours. */
  lose(): JSONRPCMessage[] {
    const lost = [...this.#ours];
    this.#ours.clear();
    this.#theirs.clear();
    return lost.map((id) => ({
      jsonrpc: "2.0",
      id,
      error: {
        code: -32_000,
        message:
          "Connection lost before the answer; the request may or may not have been carried out",
        data: { reason: lostReason },
      },
    }));
  }
}

function note(message: JSONRPCMessage, asked: Set<RequestId>, answered: Set<RequestId>): void {
  // SDKs answer no request that was cancelled
  const cancelled = cancelledBy(message);
  if (cancelled !== undefined) asked.delete(cancelled);
  else if (!("method" in message)) answered.delete(message.id!);
  else if ("id" in message) asked.add(message.id);
}

/**
 * True for an error of an SDK client whose connection broke before the response came. The transport
 * never sends a request twice: whether to retry is for the caller, which knows what the request
 * does.
 */
export function isConnectionLost(error: unknown): boolean {
  const { data } = (error ?? {}) as { data?: { reason?: unknown } };
  return data?.reason === lostReason;
}
