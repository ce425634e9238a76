import type { SluiceHandler } from "@sluice/transport-http";
import { addRoutes } from "@sluice/transport-http/handlers";
import type { Uploads } from "./create-uploads.ts";
import { createPageRoutes } from "../page/page-route.ts";
import { createUploadRoutes } from "../receive/upload-route.ts";

/**
 * Adds the upload endpoint `<endpoint>/uploads/…` and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams. Throws a `TypeError` for
 * other arguments than those two.
 */
export function withUploads(handler: SluiceHandler, uploads: Uploads): SluiceHandler {
  if (!(handler as Partial<SluiceHandler> | undefined)?.router)
    throw new TypeError("withUploads: the first argument must be what withSluice gave");
  if (!(uploads as Partial<Uploads> | undefined)?.parts)
    throw new TypeError("withUploads: the second argument must be what createUploads gave");
  const { base } = handler.router;
  const slotAt = createUploadRoutes(uploads.parts, base);
  const pageAt = createPageRoutes(uploads.parts, base);
  return addRoutes(handler, (path) => slotAt(path) ?? pageAt(path));
}
