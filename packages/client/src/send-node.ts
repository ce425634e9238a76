import { sessionOf, type FileSender, type FileSenderOptions } from "./upload/file-sender.ts";
import { createSessionSender } from "./upload/node-sender.ts";
import type { PickedFile } from "./upload/source/file-source.ts";

// declarations here replace the portable export of the same name
export * from "./send.ts";

/**
 * Sends files that a server asks for (SEP-1306) over Node's own HTTP client, in constant memory.
 * Files are paths, `File`s, or blobs with names.
 */
export function createFileSender(options: FileSenderOptions<PickedFile>): FileSender<PickedFile> {
  return createSessionSender(sessionOf(options), options);
}
