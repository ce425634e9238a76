import { blobOf } from "./net/outgoing-body.ts";
import { createFetchExchange } from "./net/fetch-exchange.ts";
import {
  assembleFileSender,
  sessionOf,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./upload/file-sender.ts";
import { createBlindSender } from "./upload/send/sender.ts";
import { needsNode } from "./net/needs-node.ts";
import type { PickedFile } from "./upload/source/file-source.ts";

export type {
  FilesAnswer,
  FormValue,
  OnFilesRequested,
  UploadCount,
} from "./upload/answer/answer-request.ts";
export type { FallbackClient } from "./upload/answer/elicitation-client.ts";
export type { RequestedField, ReceivedFileRequest } from "./upload/answer/file-request.ts";
export type { FileSender, FileSenderOptions } from "./upload/file-sender.ts";
export type { NamedBlob, PickedFile, PickedPath } from "./upload/source/file-source.ts";
export type { RequestingClient } from "./calls/stream-calls.ts";
export type { BegunFile, UploadedReference, UploadOptions } from "./upload/upload-file.ts";
export type { SendTimeouts } from "./upload/send/sender.ts";
export type { PeerTimeouts } from "./net/timeouts.ts";

/**
 * Sends files that a server asks for (SEP-1306) over the platform's `fetch`. Files are `File`s, as an `<input
 * type="file">` gives them, or blobs with names. Paths need Node or Bun: elsewhere they are rejected as `unsupported`.
 */
export function createFileSender(options: FileSenderOptions<PickedFile>): FileSender<PickedFile> {
  return assembleFileSender(sessionOf(options), options, {
    sender: createBlindSender(
      createFetchExchange((input, init) => globalThis.fetch(input, init), { blobOf }),
    ),
    async sourceOf(picked) {
      if (typeof picked === "string" || "path" in picked) throw needsNode("a file by its path");
      return sourceOfBlob(picked);
    },
  });
}
