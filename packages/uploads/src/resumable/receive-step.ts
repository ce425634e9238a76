import type { ProgressTracker } from "../slots/progress-tracker.ts";
import { ensureSize } from "../receive/raw-upload.ts";
import type { ReadBody } from "../receive/read-body.ts";
import type { UploadRequest } from "../receive/request-facts.ts";
import type { Ending } from "../slots/open-requests.ts";
import { RefusedFile } from "../slots/upload-error.ts";
import type { PartialFile } from "./partial-file.ts";

/** Reads the body of a step into a file of `length` bytes, where they are known. What came before it broke is written. */
export type ReceiveStep = (
  request: UploadRequest,
  file: PartialFile,
  length: number | undefined,
) => Promise<void>;

/** Makes the receiver of one endpoint. A step ends early when the endpoint is left. */
export function createStepReceiver({
  progress,
  readBody,
  leaving,
}: {
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly leaving: Ending;
}): ReceiveStep {
  return async (request, file, length) => {
    const { slot, facts, body } = request;
    const { uploadId, terms } = slot;
    const most = length ?? terms.maxBytes;
    ensureSize(file.offset + (facts.contentLength ?? 0), most);
    progress.begin(slot, file.fileId, { received: file.offset, total: length });
    const take = (chunk: Uint8Array): Promise<void> | undefined => {
      if (file.offset + chunk.byteLength > most)
        throw new RefusedFile("too_large", `more than ${most} bytes came`);
      progress.add(uploadId, file.fileId, chunk.byteLength);
      request.onBytes(chunk.byteLength);
      return file.write(chunk);
    };
    await leaving.during(request.signal, (signal) => readBody({ body, signal }, take));
  };
}
