import type { JSONRPCMessage, Transport } from "@modelcontextprotocol/client";
import { cancelledBy, keyOf, onAbort } from "@sluice/core/internal";
import { keyIn } from "../messages/ids.ts";
import { isAnswer, isCall } from "../messages/messages.ts";
import type { Upstream } from "../upstream/upstream.ts";

interface AwaitedCalls {
  has(id: unknown): boolean;
  hasAny(): boolean;
  /** The same upstream, watched. `change` may give another message to be sent. */
  watch(upstream: Upstream, change: (message: JSONRPCMessage) => JSONRPCMessage): Upstream;
}

/**
 * Only an awaited response may become files: a server cannot write by sending messages. `release` frees the files of
 * responses to an id that `message` does not name: their call was cancelled, its stream ended, or an error of ours took
 * their place. It gives true if there were any.
 */
export function createAwaitedCalls(
  release: (id: unknown, message?: JSONRPCMessage) => boolean,
): AwaitedCalls {
  const awaitedKeys = new Set<string>();

  function forget(id: unknown): void {
    awaitedKeys.delete(keyOf(id));
    release(id);
  }

  function watchTransport(
    transport: Transport,
    change: (message: JSONRPCMessage) => JSONRPCMessage,
  ): Transport {
    const send = transport.send.bind(transport);
    const start = transport.start.bind(transport);
    transport.send = (message, options = {}) => {
      const cancelled = cancelledBy(message);
      if (cancelled !== undefined) forget(cancelled);
      if (!isCall(message)) return send(change(message), options);
      const { id } = message;
      note(keyOf(id));
      const { requestSignal, onRequestStreamEnd } = options;
      onAbort(requestSignal, () => forget(id));
      return send(change(message), {
        ...options,
        onRequestStreamEnd() {
          // the SDK refused the message that the answer was
          if (awaitedKeys.has(keyOf(id))) release(id);
          onRequestStreamEnd?.();
        },
      });
    };
    transport.start = () => {
      const { onmessage } = transport;
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
      transport.onmessage = (message, extra) => {
        if (isAnswer(message)) {
          const key = keyIn(awaitedKeys, message.id);
          const isAwaited = key !== undefined && awaitedKeys.delete(key);
          // a late response has markers of files that are gone
          if (!isAwaited && release(message.id)) return;
          if (isAwaited && "error" in message) release(message.id, message);
        }
        onmessage?.(message, extra);
      };
      return start();
    };
    return transport;
  }

  function note(key: string): void {
    awaitedKeys.add(key);
    // answers of cancelled calls may never come
    for (const oldest of awaitedKeys) if (awaitedKeys.size > maxWaiting) awaitedKeys.delete(oldest);
  }

  return {
    has: (id) => keyIn(awaitedKeys, id) !== undefined,
    hasAny: () => awaitedKeys.size > 0,
    watch: (upstream, change) => ({
      ...upstream,
      open: async (flow) => watchTransport(await upstream.open(flow), change),
    }),
  };
}

/** More than a bridge holds open. */
const maxWaiting = 4_096;
