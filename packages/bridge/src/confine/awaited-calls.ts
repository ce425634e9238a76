import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { cancelledBy } from "@sluice/core";
import { isAnswer, isCall } from "../relay/messages.ts";
import type { Upstream } from "../upstream/upstream.ts";

/** Requests that wait for the server's answer. */
export interface AwaitedCalls {
  has(id: unknown): boolean;
  /** True while any call waits. */
  hasAny(): boolean;
  /** The same upstream, watched. `change` may give another message to be sent. */
  watch(upstream: Upstream, change: (message: JSONRPCMessage) => JSONRPCMessage): Upstream;
}

/** Only an answer that is waited for may become files: a server cannot write by sending messages. */
export function createAwaitedCalls(): AwaitedCalls {
  const waiting = new Set<string>();

  function watchTransport(
    transport: Transport,
    change: (message: JSONRPCMessage) => JSONRPCMessage,
  ): Transport {
    const send = transport.send.bind(transport);
    const start = transport.start.bind(transport);
    transport.send = (message, options) => {
      if (isCall(message)) note(keyOf(message.id));
      const cancelled = cancelledBy(message);
      if (cancelled !== undefined) waiting.delete(keyOf(cancelled));
      return send(change(message), options);
    };
    transport.start = () => {
      const { onmessage } = transport;
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
      transport.onmessage = (message, extra) => {
        if (isAnswer(message)) waiting.delete(keyOf(message.id));
        onmessage?.(message, extra);
      };
      return start();
    };
    return transport;
  }

  function note(key: string): void {
    waiting.add(key);
    // answers of cancelled calls may never come
    for (const oldest of waiting) if (waiting.size > mostWaiting) waiting.delete(oldest);
  }

  return {
    has: (id) => waiting.has(keyOf(id)),
    hasAny: () => waiting.size > 0,
    watch: (upstream, change) => ({
      ...upstream,
      open: async (flow) => watchTransport(await upstream.open(flow), change),
    }),
  };
}

/** More than a bridge holds open. */
const mostWaiting = 4_096;

function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}
