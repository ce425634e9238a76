import type { JSONRPCResponse } from "@modelcontextprotocol/client";
import type { BridgeCalls } from "../relay/hooks.ts";
import { answerOf, answerTo } from "../relay/messages.ts";
import { findPlaces } from "../spool/found-places.ts";
import { releaseSpooled, type RemoveString } from "../spool/release-spooled.ts";
import { rewriteSpooled } from "../spool/rewrite-spooled.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";

/**
 * The bridge's own calls with words in place of strings that went to files, but for `resources/read`, which is saved. Files
 * of an error are removed: the host gets its message alone.
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
      if (answer.error) {
        const places = findPlaces(answer, new Set(spooled.keys()));
        const markers = new Set(places.map(({ marker }) => marker));
        releaseSpooled(spooled, remove, ({ id }) => markers.has(id));
      }
      if (method === "resources/read" || answer.error) return answer;
      return answerOf(rewriteSpooled(answerTo(0, answer), spooled) as JSONRPCResponse);
    },
    notifyHost: (method, params) => calls.notifyHost(method, params),
    askHost: (method, params, signal) => calls.askHost(method, params, signal),
  };
}
