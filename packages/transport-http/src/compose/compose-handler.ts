import type { Sluice } from "@sluice/server";
import { problem } from "@sluice/server/transport";
import { withBinary, type WithBinaryOptions } from "../binary/with-binary.ts";
import { addRoutes, createRoutedHandler } from "../endpoint/routed-handler.ts";
import { type Routes, createRouter, type EndpointOptions } from "../endpoint/router.ts";
import type { McpFetchHandler, SluiceHandler } from "../endpoint/sluice-handler.ts";
import { withSluice, type WithSluiceOptions } from "./with-sluice.ts";
import { createDownloadRoutes } from "../download/download-route.ts";
import { ensureSluice } from "../endpoint/ensure-arguments.ts";
import { toResponse } from "../endpoint/web-response.ts";

/** The parts of a server, by name. The options are those of `withSluice`. */
export interface HandlerParts extends WithSluiceOptions {
  readonly sluice: Sluice;
  /**
   * Answers JSON-RPC: what `createMcpHandler` or `createSessions` gave, or a handler of your own. Default: none, for
   * downloads and uploads beside another transport, such as WebSocket.
   */
  readonly mcp?: McpFetchHandler;
  /** What `createResume` of `@sluice/resume` gave. Default: streams end with their connection. */
  readonly resume?: {
    wrap(mcp: McpFetchHandler, sluice: Sluice, endpoint: WithSluiceOptions): McpFetchHandler;
  };
  /** Lets bytes go beside JSON, as `withBinary` does. Default: they do not; `{}` for the limits of `withBinary`. */
  readonly binary?: WithBinaryOptions;
  /** What `createUploads` of `@sluice/uploads` gave. Default: no uploads. */
  readonly uploads?: { routes(base: string): Routes };
}

/**
 * Makes the handler of a whole server: resumable streams around `mcp`, then Sluice, bytes beside JSON, and the routes of
 * uploads. Each layer is a function of its own, too, for servers that need another order.
 *
 * ```ts
 * const handler = composeHandler({
 *   mcp: createSessions(create, sluice),
 *   sluice,
 *   resume: createResume({ store: createMemoryEventStore() }),
 *   uploads: createUploads(sluice, { storage }),
 * });
 * createServer(toNodeHandler(handler)).listen(3000);
 * ```
 *
 * Throws a `TypeError` for what its layers refuse, and for `resume` or `binary` without `mcp`.
 */
export function composeHandler(parts: HandlerParts): SluiceHandler {
  const { sluice, mcp, resume, binary, uploads, ...endpoint } = parts;
  if (!mcp && (resume || binary))
    throw new TypeError("composeHandler: resume and binary are for JSON-RPC: also pass mcp");
  let handler: SluiceHandler;
  if (mcp) {
    const resumable = resume ? resume.wrap(mcp, sluice, endpoint) : mcp;
    handler = withSluice(resumable, sluice, endpoint);
    if (binary) handler = withBinary(handler, binary);
  } else handler = createSidecar(sluice, endpoint);
  return uploads ? addRoutes(handler, uploads.routes(handler.router.base)) : handler;
}

/**
 * Serves the download route alone, and 404 for the rest: for a server whose JSON-RPC goes another
 * way, as over WebSocket. The `endpoint` of the Sluice is then the public URL of this handler.
 * It may run in another process than the server, with the same keys and state store.
 */
export function createSidecar(sluice: Sluice, options: EndpointOptions = {}): SluiceHandler {
  ensureSluice("createSidecar", sluice);
  const router = createRouter(sluice, options);
  const routes = createDownloadRoutes(sluice, router.base);
  return createRoutedHandler({ ...router, routes }, async () => toResponse(problem(404)));
}
