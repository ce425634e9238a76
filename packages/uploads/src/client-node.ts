import {
  assembleFileSender,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./client/file-sender.ts";
import type { NamedBlob } from "./client/file-source.ts";
import { createHttpSender } from "./client/http-sender.ts";
import { pathSource, type PickedPath } from "./client/path-source.ts";

export type { FileSender, FileSenderOptions } from "./client/file-sender.ts";
export type { NamedBlob } from "./client/file-source.ts";
export type { BegunFile, UploadedReference, UploadOptions } from "./client/upload-file.ts";
export type { PickedPath } from "./client/path-source.ts";

const sender = createHttpSender();

/**
 * Sends files that a server asks for (SEP-1306) over Node's own HTTP client, in constant memory.
 * Files are paths, or blobs with names.
 */
export function createFileSender(
  options: FileSenderOptions<string | PickedPath | NamedBlob>,
): FileSender<string | PickedPath | NamedBlob> {
  return assembleFileSender(options, {
    sender,
    async sourceOf(picked) {
      if (typeof picked === "string") return pathSource({ path: picked });
      return "path" in picked ? pathSource(picked) : sourceOfBlob(picked);
    },
  });
}
