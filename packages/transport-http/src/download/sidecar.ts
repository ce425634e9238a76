import type { Sluice } from "@sluice/server";
import { createOriginGate, problem, type OriginGateOptions } from "@sluice/server/transport";
import { createDownloadRoutes } from "./download-route.ts";
import { ensureSluice } from "../endpoint/ensure-arguments.ts";
import { readBase } from "../endpoint/request-target.ts";
import { createRoutedHandler } from "../endpoint/routed-handler.ts";
import { toResponse } from "../endpoint/web-response.ts";
import type { SluiceHandler } from "../endpoint/sluice-handler.ts";

/** Options of {@link createSidecar}. */
export interface SidecarOptions extends OriginGateOptions {
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `endpoint`. */
  readonly path?: string;
}

/**
 * Serves the download route alone, and 404 for the rest: for a server whose JSON-RPC goes another
 * way, as over WebSocket. The `endpoint` of the Sluice is then the public URL of this handler.
 * It may run in another process than the server, with the same keys and state store.
 */
export function createSidecar(sluice: Sluice, options: SidecarOptions = {}): SluiceHandler {
  ensureSluice("createSidecar", sluice);
  const base = readBase(options.path ?? new URL(sluice.endpoint.url).pathname);
  const gate = createOriginGate(sluice.endpoint.url, options);
  const routes = createDownloadRoutes(sluice, base);
  return createRoutedHandler({ base, gate, routes }, async () => toResponse(problem(404)));
}
