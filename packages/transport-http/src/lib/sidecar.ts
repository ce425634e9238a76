import { problem, type OriginGateOptions, type Sluice } from "@sluice/server";
import { toResponse } from "./web-response.ts";
import { withSluice, type SluiceHandler } from "./with-sluice.ts";

/**
 * Serves the download route alone, and 404 for the rest: for a server whose JSON-RPC goes another
 * way, as over WebSocket. The `endpoint` of the Sluice is then the public URL of this handler.
 * It may run in another process than the server, with the same keys and state store.
 */
export function createSidecar(sluice: Sluice, options: OriginGateOptions = {}): SluiceHandler {
  return withSluice({ fetch: async () => toResponse(problem(404)) }, sluice, options);
}
