import type { JSONRPCResponse } from "@modelcontextprotocol/client";
import type { BridgeCalls } from "../messages/hooks.ts";
import { answerOf, answerTo } from "../messages/messages.ts";
import { findPlaces } from "../spool/found-places.ts";
import type { RemoveString } from "../spool/release-spooled.ts";
import { rewriteSpooled } from "../spool/rewrite-spooled.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";

/**
 * The bridge's own calls with words in place of strings that went to files, but for `resources/read`, which is saved. The
 * host hears of files of `tools/call` alone: those of other answers, and of errors, are removed.
 */
export function rewritingCalls(
  calls: BridgeCalls,
  spooled: SpooledStrings,
  remove: RemoveString,
): BridgeCalls {
  return {
    get hostRevision() {
      return calls.hostRevision;
    },
    get hostCapabilities() {
      return calls.hostCapabilities;
    },
    async callServer(method, params, signal) {
      const answer = await calls.callServer(method, params, signal);
      if (method === "resources/read" && !answer.error) return answer;
      const places = findPlaces(answer, new Set(spooled.keys()));
      const files = places.map(({ marker }) => spooled.get(marker));
      const told = answerOf(rewriteSpooled(answerTo(0, answer), spooled) as JSONRPCResponse);
      const isTold = method === "tools/call" && !answer.error;
      for (const file of isTold ? [] : files) if (file) void remove(file).catch(() => {});
      return told;
    },
    notifyHost: (method, params) => calls.notifyHost(method, params),
    askHost: (method, params, signal) => calls.askHost(method, params, signal),
  };
}
