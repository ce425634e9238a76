import { sessionOf, type FileSender, type FileSenderOptions } from "./upload/file-sender.ts";
import { createSessionSender, type PickedInNode } from "./upload/node-sender.ts";

// declarations here replace the portable export of the same name
export * from "./send.ts";
export type { PickedPath } from "./upload/source/path-source.ts";

/**
 * Sends files that a server asks for (SEP-1306) over Node's own HTTP client, in constant memory.
 * Files are paths, `File`s, or blobs with names.
 */
export function createFileSender(
  options: FileSenderOptions<PickedInNode>,
): FileSender<PickedInNode> {
  return createSessionSender(sessionOf(options), options);
}
