import { createSessionTable } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import {
  entryFor,
  sessionCallerOf,
  sessionNotFound,
  sessionsFull,
  watchEnd,
} from "../sessions/session-caller.ts";
import { HttpExchange } from "../endpoint/http-exchange.ts";
import { missingNext } from "../endpoint/sluice-handler.ts";
import type { McpFetchHandler, SluiceHandler } from "../endpoint/sluice-handler.ts";
import { withSluice, type WithSluiceOptions } from "./with-sluice.ts";

/**
 * Makes the handler for an app that has a transport for each session or request already, as the Express examples of both SDKs
 * do: `behind: "app"` of `createHandler`.
 *
 * A session that the app opens belongs to the principal that opened it or, if it was opened without credentials, to the first
 * one that uses it: for every other caller it does not exist (404), and its stream of events ends. Bearer middleware must
 * therefore be `authenticate` of `toNodeHandler`; a token that is verified only behind this handler causes a 500. Sessions are
 * known to this process only, at most 10,000 and 1,000 of one principal; a new one then ends the longest idle.
 */
export function createFrontHandler(sluice: Sluice, options: WithSluiceOptions = {}): SluiceHandler {
  return { ...withSluice(createNextHandler(sluice), sluice, options), isFront: true };
}

function createNextHandler(sluice: Sluice): McpFetchHandler {
  const table = createSessionTable<undefined>(
    { perPrincipal: 1_000, perProcess: 10_000, idleMs: Infinity },
    ({ id }) => void sluice.endSession(id).catch(sluice.host.onError),
  );

  return {
    async fetch(request, options) {
      const { next: go } = HttpExchange.of(request);
      if (!go) throw missingNext();
      const caller = await sessionCallerOf(sluice, request, options?.authInfo);
      const id = request.headers.get("mcp-session-id");
      if (id === null) {
        const response = await go(request, options);
        const opened = response.headers.get("mcp-session-id");
        if (opened === null || !response.ok) return response;
        const entry = { ...caller, id: opened, live: undefined };
        return table.add(entry) ? watchEnd(response, table.hold(entry)) : sessionsFull();
      }
      const knownSession = table.find(id);
      const entry = knownSession && entryFor(table, knownSession, caller);
      if (!entry) return sessionNotFound();
      const claimed = new AbortController();
      const isListening = request.method === "GET";
      const release = table.hold(entry, isListening ? () => claimed.abort() : undefined);
      try {
        const response = await go(request, options);
        if (request.method === "DELETE" && response.ok) table.remove(id);
        return watchEnd(response, release, claimed.signal);
      } catch (error) {
        release();
        throw error;
      }
    },
  };
}
