import { createFetchSender } from "./client/fetch-sender.ts";
import {
  assembleFileSender,
  sourceOfBlob,
  type FileSender,
  type FileSenderOptions,
} from "./client/file-sender.ts";
import type { NamedBlob } from "./client/file-source.ts";

export type { OnFilesRequested, UploadCount } from "./client/answer-request.ts";
export type { FilesAnswer, FormValue } from "./client/chosen-files.ts";
export type { FallbackClient } from "./client/elicitation-client.ts";
export type { FileField, FileRequest } from "./client/file-request.ts";
export type { FileSender, FileSenderOptions } from "./client/file-sender.ts";
export { isAccepted } from "./client/accept-list.ts";
export { typeOfName } from "./client/file-type.ts";
export type { NamedBlob } from "./client/file-source.ts";
export type {
  BegunFile,
  RequestingClient,
  UploadedReference,
  UploadOptions,
} from "./client/upload-file.ts";
export type { SendTimeouts } from "./client/sender.ts";

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
