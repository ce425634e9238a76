import type { JSONRPCMessage, RequestId } from "@modelcontextprotocol/client";
import { keyOf } from "@sluice/core/internal";
import { membersOf } from "../messages/messages.ts";

/** A call of a host whose answer is not there yet. */
export interface HostCall {
  readonly id: RequestId;
  readonly progressToken: unknown;
}

/** Notifications that belong to a session, and to no call. */
const sessionNotices: ReadonlySet<string> = new Set([
  "notifications/prompts/list_changed",
  "notifications/resources/list_changed",
  "notifications/resources/updated",
  "notifications/tools/list_changed",
]);

/**
 * The call on whose stream a notification or request of the server goes out: the one that its progress token names,
 * or the only one. Undefined: it goes out on the stream of the session, where `hasStream`. Without that stream the
 * newest call carries it.
 */
export function relatedCall<Call extends HostCall>(
  message: JSONRPCMessage,
  calls: readonly Call[],
  hasStream: boolean,
): Call | undefined {
  if (!("method" in message)) return undefined;
  if (message.method === "notifications/progress") {
    const token = keyOf(membersOf(message.params)["progressToken"]);
    return calls.find(({ progressToken }) => keyOf(progressToken) === token);
  }
  if (hasStream && (calls.length !== 1 || sessionNotices.has(message.method))) return undefined;
  return calls.at(-1);
}

/** The token with which a request asks for progress. */
export function progressTokenOf(params: unknown): unknown {
  return membersOf(membersOf(params)["_meta"])["progressToken"];
}
