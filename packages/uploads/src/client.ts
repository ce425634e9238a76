import { createFetchSender } from "./lib/client/fetch-sender.ts";
import {
  assembleFileSender,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./lib/client/file-sender.ts";
import type { NamedBlob } from "./lib/client/file-source.ts";

export type { OnFilesRequested, UploadCount } from "./lib/client/answer-request.ts";
export type { FilesAnswer, FormValue } from "./lib/client/chosen-files.ts";
export type { FallbackClient } from "./lib/client/elicitation-client.ts";
export type { FileField, FileRequest } from "./lib/client/file-request.ts";
export type { FileSender, FileSenderOptions } from "./lib/client/file-sender.ts";
export { isAccepted } from "./lib/client/accept-list.ts";
export { typeOfName } from "./lib/client/file-type.ts";
export type { NamedBlob } from "./lib/client/file-source.ts";
export type {
  BegunFile,
  RequestingClient,
  UploadedReference,
  UploadOptions,
} from "./lib/client/upload-file.ts";
export type { SendTimeouts } from "./lib/client/sender.ts";

/**
 * Sends files that a server asks for (SEP-1306) over the platform's `fetch`. Files are `File`s, as an
 * `<input type="file">` gives them, or blobs with names. In Node take the one of `./client/node`.
 */
export function createFileSender(
  options: FileSenderOptions<File | NamedBlob>,
): FileSender<File | NamedBlob> {
  return assembleFileSender(options, {
    sender: createFetchSender((input, init) => globalThis.fetch(input, init)),
    sourceOf: async (picked) => sourceOfBlob(picked),
  });
}
