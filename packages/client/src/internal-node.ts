import { createOpenForeignFile, type OpenForeignFile } from "./foreign/foreign-file.ts";
import { createHttpExchange } from "./net/node/http-exchange.ts";

// declarations here replace the portable export of the same name
export * from "./internal.ts";
export { withDownloads, withStreaming } from "./calls/node-streaming.ts";
export { createPublicLookup, ensurePublic } from "./net/node/http-exchange.ts";
export { settingsOf } from "./download/stream-options.ts";
export { boundsFor } from "./tree/request-tree.ts";
export { saveTogether } from "./tree/save-together.ts";
export { pathKey, TreeFolder } from "./tree/tree-folder.ts";
export { diskError } from "./save/disk-error.ts";
export { readFault } from "./upload/source/path-source.ts";
export { randomPartName, writerOfPart } from "./save/part-name.ts";
export { saveBytes, saveFile, type SaveBytesOptions } from "./save/save-file.ts";
export { createSessionSender } from "./upload/node-sender.ts";
export { ClientSession } from "./upload/upload-target.ts";
export {
  type SavableStream,
  streamLinkToSave,
  type StreamLinkOptions,
  streamToSave,
  type WantedPart,
  writePart,
} from "./save/savable-stream.ts";

/**
 * Opens a file under a URL that a third party named, without credentials, over Node's own HTTP client: the address of each
 * hop is checked as it is connected to, and no proxy of the environment stands between.
 */
export const openForeignFile: OpenForeignFile = createOpenForeignFile(
  createHttpExchange({ direct: true }),
);
