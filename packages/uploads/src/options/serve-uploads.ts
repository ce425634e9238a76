import type { Host } from "@sluice/server/internal";
import type { Routes, SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/internal";

/** What handlers and other packages of Sluice use of uploads. */
export interface UploadsHost {
  /** The Sluice that they were made for, as its other packages see it. */
  readonly sluice: Host;
  /** The routes below the path of an endpoint. */
  routes(base: string): Routes;
}

/**
 * Adds the upload endpoint (`<endpoint>/u/…` and `<endpoint>/uploads/…`) and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams.
 */
export function withUploads(
  handler: SluiceHandler,
  { host }: { readonly host: UploadsHost },
): SluiceHandler {
  return addRoutes(handler, host.routes(handler.router.base));
}
