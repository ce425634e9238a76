import type { Sluice } from "@sluice/server";
import { withBinary, type WithBinaryOptions } from "../binary/with-binary.ts";
import { createSidecar } from "../download/sidecar.ts";
import type { McpFetchHandler, SluiceHandler } from "./sluice-handler.ts";
import { withSluice, type WithSluiceOptions } from "./with-sluice.ts";

/** The parts of a server, by name. The options are those of `withSluice`. */
export interface HandlerParts extends WithSluiceOptions {
  readonly sluice: Sluice;
  /**
   * Answers JSON-RPC: what `createMcpHandler` or `createSessions` gave, or a handler of your own. Default: none, for
   * downloads and uploads beside another transport, such as WebSocket.
   */
  readonly mcp?: McpFetchHandler;
  /** Makes streams resumable: `(mcp, endpoint) => withResume(mcp, sluice, { ...endpoint, store })`. */
  readonly resume?: (mcp: McpFetchHandler, endpoint: WithSluiceOptions) => McpFetchHandler;
  /** Lets bytes go beside JSON, as `withBinary` does. Default: they do not; `{}` for the limits of `withBinary`. */
  readonly binary?: WithBinaryOptions;
  /** Adds uploads: `(handler) => withUploads(handler, uploads)`. */
  readonly uploads?: (handler: SluiceHandler) => SluiceHandler;
}

/**
 * Nests the layers of a server in their one right order: resumable streams inside, then Sluice, bytes beside JSON, and
 * uploads outside. Each layer is a function of its own, too, for servers that need another order.
 *
 * ```ts
 * const uploads = createUploads(sluice, { store });
 * const handler = composeHandler({
 *   mcp: createSessions(create, sluice),
 *   sluice,
 *   uploads: (inner) => withUploads(inner, uploads),
 * });
 * createServer(toNodeHandler(handler)).listen(3000);
 * ```
 *
 * Throws a `TypeError` for what its layers refuse, and for `resume` or `binary` without `mcp`.
 */
export function composeHandler(parts: HandlerParts): SluiceHandler {
  const { sluice, mcp, resume, binary, uploads = (handler) => handler, ...endpoint } = parts;
  if (mcp) {
    const resumable = resume ? resume(mcp, endpoint) : mcp;
    const handler = withSluice(resumable, sluice, endpoint);
    return uploads(binary ? withBinary(handler, binary) : handler);
  }
  if (resume || binary)
    throw new TypeError("composeHandler: resume and binary are for JSON-RPC: pass mcp, too");
  return uploads(createSidecar(sluice, endpoint));
}
