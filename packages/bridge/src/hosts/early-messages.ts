import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isCall } from "../messages/messages.ts";

const maxMessages = 100;
const maxBytes = 2 ** 20;

/**
 * Requests and notifications of a server that wait for a stream: a server may ask as soon as it is initialized, and the
 * host opens its stream after that. At most 100 and 1 MiB; what is more is dropped. Progress is of no use later.
 */
export class EarlyMessages {
  #messages: JSONRPCMessage[] = [];
  #bytes = 0;

  push(message: JSONRPCMessage): void {
    if (!isCall(message) && "method" in message && message.method === "notifications/progress")
      return;
    const bytes = JSON.stringify(message).length;
    if (this.#messages.length >= maxMessages || this.#bytes + bytes > maxBytes) return;
    this.#messages.push(message);
    this.#bytes += bytes;
  }

  /** All that wait, in their order; none wait any more. */
  take(): JSONRPCMessage[] {
    const messages = this.#messages;
    this.#messages = [];
    this.#bytes = 0;
    return messages;
  }
}
