import type { Sluice } from "@sluice/server";
import { problem } from "@sluice/server/internal";
import { createDownloadRoutes } from "../download/download-route.ts";
import { createRoutedHandler } from "../endpoint/routed-handler.ts";
import { createRouter, type EndpointOptions } from "../endpoint/router.ts";
import type { SluiceHandler } from "../endpoint/sluice-handler.ts";
import { toResponse } from "../endpoint/web-response.ts";

/**
 * Serves the download route alone, and 404 for the rest: for a server whose JSON-RPC goes another
 * way, as over WebSocket. The `endpoint` of the Sluice is then the public URL of this handler.
 * It may run in another process than the server, with the same keys and state store.
 */
export function createSidecar(sluice: Sluice, options: EndpointOptions = {}): SluiceHandler {
  const router = createRouter(sluice, options);
  const routes = createDownloadRoutes(sluice, router.base);
  return createRoutedHandler({ ...router, routes }, async () => toResponse(problem(404)));
}
