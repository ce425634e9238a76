import type { SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/handlers";
import type { Uploads } from "./create-uploads.ts";

/**
 * Adds the upload endpoint `<endpoint>/uploads/…` and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams. Throws a `TypeError` for
 * other arguments than those two.
 */
export function withUploads(handler: SluiceHandler, uploads: Uploads): SluiceHandler {
  if (!(handler as Partial<SluiceHandler> | undefined)?.router)
    throw new TypeError("withUploads: the first argument must be what withSluice gave");
  if (!(uploads as Partial<Uploads> | undefined)?.routes)
    throw new TypeError("withUploads: the second argument must be what createUploads gave");
  return addRoutes(handler, uploads.routes(handler.router.base));
}
