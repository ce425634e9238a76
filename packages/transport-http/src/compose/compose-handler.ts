import type { Sluice } from "@sluice/server";
import { withBinary, type WithBinaryOptions } from "../binary/with-binary.ts";
import { createSidecar } from "../download/sidecar.ts";
import { addRoutes } from "../endpoint/routed-handler.ts";
import type { Routes } from "../endpoint/router.ts";
import type { McpFetchHandler, SluiceHandler } from "../endpoint/sluice-handler.ts";
import { withSluice, type WithSluiceOptions } from "./with-sluice.ts";

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
    throw new TypeError("composeHandler: resume and binary are for JSON-RPC: pass mcp, too");
  let handler: SluiceHandler;
  if (mcp) {
    const resumable = resume ? resume.wrap(mcp, sluice, endpoint) : mcp;
    handler = withSluice(resumable, sluice, endpoint);
    if (binary) handler = withBinary(handler, binary);
  } else handler = createSidecar(sluice, endpoint);
  return uploads ? addRoutes(handler, uploads.routes(handler.router.base)) : handler;
}
