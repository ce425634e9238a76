import { addRoutes, type SluiceHandler } from "@sluice/transport-http";
import type { Uploads } from "./create-uploads.ts";
import { createPageRoutes } from "./page/page-route.ts";
import { createUploadRoutes } from "./upload-route.ts";

/**
 * Adds the upload endpoint `<endpoint>/uploads/…` and its pages to a handler, behind its checks of `Host` and `Origin`. Over
 * `toNodeHandler` bodies go straight from the connection to storage; elsewhere they are web streams.
 */
export function withUploads(handler: SluiceHandler, uploads: Uploads): SluiceHandler {
  const { base } = handler.door;
  const slotAt = createUploadRoutes(uploads.parts, base);
  const pageAt = createPageRoutes(uploads.parts, base);
  return addRoutes(handler, (path) => slotAt(path) ?? pageAt(path));
}
