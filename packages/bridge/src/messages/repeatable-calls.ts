import type { JSONRPCMessage, JSONRPCRequest } from "@modelcontextprotocol/client";
import { isAnswer, isCall, membersOf, type Members } from "./messages.ts";

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

const maxTools = 10_000;

/** Calls that do no harm if the server gets them twice: by their method, or as the server's list of tools says. */
export class RepeatableCalls {
  readonly #tools = new Set<string>();

  /** Learns from the server's lists of tools, of which the newest counts. */
  learn(message: JSONRPCMessage): void {
    if (!isAnswer(message) || !("result" in message)) return;
    const { tools } = message.result;
    if (!Array.isArray(tools)) return;
    for (const tool of (tools as unknown[]).map(membersOf)) {
      const { name } = tool;
      if (typeof name !== "string") continue;
      if (!isHarmless(membersOf(tool["annotations"]))) this.#tools.delete(name);
      else if (this.#tools.size < maxTools) this.#tools.add(name);
    }
  }

  /** True for a call that changes nothing, or nothing more the second time. */
  has({ method, params }: JSONRPCRequest): boolean {
    if (method !== "tools/call") return readingMethods.has(method);
    const { name } = membersOf(params);
    return typeof name === "string" && this.#tools.has(name);
  }

  /**
   * True for a message that may be sent again when it is unknown whether it arrived. `server/discover` is not repeated:
   * with servers that fail at it, `initialize` is next.
   */
  mayArriveTwice(message: JSONRPCMessage): boolean {
    return !isCall(message) || (this.has(message) && message.method !== "server/discover");
  }
}

/** A server that says so falsely harms only itself. */
function isHarmless({ readOnlyHint, idempotentHint }: Members): boolean {
  return readOnlyHint === true || idempotentHint === true;
}
