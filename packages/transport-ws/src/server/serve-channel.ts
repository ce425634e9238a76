import { cancelledBy, definedMembers, errorTable, STREAM_METHOD } from "@sluice/core/internal";
import type {
  AuthInfo,
  McpServerFactory,
  MessageExtraInfo,
  Transport,
  JSONRPCMessage,
  RequestId,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { closings } from "../messages/closing.ts";
import type { ServerChannel } from "./server-channel.ts";

interface ChannelContext {
  /** Verified at the upgrade. */
  readonly authInfo?: AuthInfo | undefined;
  /** The upgrade as a request; made when the first message asks for a server. */
  readonly request: () => Request;
  readonly onError: (error: unknown) => void;
}

/**
 * Serves legacy or modern clients on one connection. The SDK's entry for long-lived channels decides by the first
 * message and keeps one server for the rest. It does not pass on the caller, so each message brings that along.
 */
export function serveChannel(
  channel: ServerChannel,
  factory: McpServerFactory,
  { authInfo, request, onError }: ChannelContext,
): void {
  serveStdio(
    async ({ era }) => {
      try {
        const requestInfo = request();
        const extra = definedMembers({ request: requestInfo, authInfo });
        const server = await factory(definedMembers({ era, requestInfo, authInfo }));
        const connect = server.connect.bind(server);
        const errors = era === "legacy" ? new StreamErrors() : undefined;
        server.connect = (inner: Transport) => connect(withExtra(inner, extra, errors));
        return server;
      } catch (error) {
        // after the SDK's own response to the message, which reports the error
        setImmediate(() => channel.end(closings.fault));
        throw error;
      }
    },
    { transport: channel, onerror: onError },
  );
}

/** A transport whose messages carry more than they came with, and whose errors have the numbers of this connection. */
/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */
function withExtra(
  inner: Transport,
  extra: MessageExtraInfo,
  errors: StreamErrors | undefined,
): Transport {
  let take: Transport["onmessage"];
  inner.onmessage = (message, own) => {
    errors?.note(message);
    take?.(message, { ...extra, ...own });
  };
  return {
    start: () => inner.start(),
    send: (message, options) => inner.send(errors?.number(message) ?? message, options),
    close: () => inner.close(),
    setProtocolVersion: (version) => inner.setProtocolVersion?.(version),
    get onmessage() {
      return take;
    },
    set onmessage(callback) {
      take = callback;
    },
    get onclose() {
      return inner.onclose;
    },
    set onclose(callback) {
      inner.onclose = callback;
    },
    get onerror() {
      return inner.onerror;
    },
    set onerror(callback) {
      inner.onerror = callback;
    },
  };
}

/**
 * Gives errors of `resources/stream` on one legacy connection the numbers that they have over HTTP: the SDK sends
 * -32602 for every -32002 that a handler throws. A class because there are thousands of connections.
 */
class StreamErrors {
  /** Calls without a response; made with the first one. */
  #calls: Set<RequestId> | undefined;

  /** Sees each message of the client. */
  note(message: JSONRPCMessage): void {
    const cancelled = cancelledBy(message);
    if (cancelled !== undefined) this.#calls?.delete(cancelled);
    if ("method" in message && "id" in message && message.method === STREAM_METHOD)
      (this.#calls ??= new Set()).add(message.id);
  }

  /** Sees each message to the client, and gives what to send. */
  number(message: JSONRPCMessage): JSONRPCMessage {
    if ("method" in message || !this.#calls?.delete(message.id!)) return message;
    if (!("error" in message)) return message;
    const { error } = message;
    const { reason } = (error.data ?? {}) as { reason?: unknown };
    if (reason !== "not_found") return message;
    return { ...message, error: { ...error, code: errorTable.not_found.legacy } };
  }
}
