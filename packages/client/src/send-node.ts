import {
  assembleFileSender,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./upload/file-sender.ts";
import type { NamedBlob } from "./upload/source/file-source.ts";
import { httpExchange } from "./net/node/http-exchange.ts";
import { createSender } from "./upload/send/sender.ts";
import { pathSource, type PickedPath } from "./upload/source/path-source.ts";

// declarations here replace the portable export of the same name
export * from "./send.ts";
export type { PickedPath } from "./upload/source/path-source.ts";

type Picked = string | PickedPath | File | NamedBlob;

/**
 * Sends files that a server asks for (SEP-1306) over Node's own HTTP client, in constant memory.
 * Files are paths, `File`s, or blobs with names.
 */
export function createFileSender(options: FileSenderOptions<Picked>): FileSender<Picked> {
  return assembleFileSender(options, {
    sender: createSender(httpExchange),
    async sourceOf(picked) {
      if (typeof picked === "string") return pathSource({ path: picked });
      return "path" in picked ? pathSource(picked) : sourceOfBlob(picked);
    },
  });
}
