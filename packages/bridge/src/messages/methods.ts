import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { isCall } from "./messages.ts";

/** Methods that change nothing: to call them again does no harm. */
const readingMethods: ReadonlySet<string> = new Set([
  "completion/complete",
  "initialize",
  "ping",
  "prompts/get",
  "prompts/list",
  "resources/list",
  "resources/read",
  "resources/templates/list",
  "server/discover",
  "subscriptions/listen",
  "tools/list",
]);

/** True for a method that changes nothing. */
export function isReading(method: string): boolean {
  return readingMethods.has(method);
}

/**
 * True for a message that may be sent again when it is unknown whether it arrived. `server/discover` is not repeated: with
 * servers that fail at it, `initialize` is next.
 */
export function mayArriveTwice(message: JSONRPCMessage): boolean {
  return !isCall(message) || (isReading(message.method) && message.method !== "server/discover");
}
