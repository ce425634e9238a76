import { definedMembers } from "@sluice/core";
import type {
  AuthInfo,
  McpServerFactory,
  MessageExtraInfo,
  Transport,
} from "@modelcontextprotocol/server";
import { serveStdio } from "@modelcontextprotocol/server/stdio";
import { closings } from "../messages/closing.ts";
import type { ServerChannel } from "./server-channel.ts";
import { StreamErrors } from "./legacy-messages.ts";

/** The facts for handlers about the connection that they answer on. */
export interface ChannelContext {
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
        onError(error);
        // after the SDK's own answer to the message
        setImmediate(() => channel.end(closings.fault));
        throw error;
      }
    },
    { transport: channel },
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
