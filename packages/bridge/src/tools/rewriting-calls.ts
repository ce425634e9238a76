import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import type { BridgeCalls } from "../relay/hooks.ts";
import { membersOf } from "../relay/messages.ts";
import { rewriteSpooled } from "../spool/rewrite-spooled.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";

/** The bridge's own calls with words in place of strings that went to files, but for `resources/read`, which is saved. */
export function rewritingCalls(calls: BridgeCalls, spooled: SpooledStrings): BridgeCalls {
  return {
    get hostRevision() {
      return calls.hostRevision;
    },
    get hostCapabilities() {
      return calls.hostCapabilities;
    },
    async callServer(method, params, signal) {
      const answer = await calls.callServer(method, params, signal);
      if (method === "resources/read" || answer.error) return answer;
      const message: JSONRPCMessage = { jsonrpc: "2.0", id: 0, result: { ...answer.result } };
      const rewritten = rewriteSpooled(message, spooled) as { readonly result?: unknown };
      return { result: membersOf(rewritten.result) };
    },
    notifyHost: (method, params) => calls.notifyHost(method, params),
    askHost: (method, params, signal) => calls.askHost(method, params, signal),
  };
}
