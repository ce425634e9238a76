import { createPartAppender } from "./append-parts.ts";
import type { PartialFile } from "./partial-files.ts";
import type { ProgressTracker } from "../receive/progress-tracker.ts";
import { ensureSize } from "../receive/raw-upload.ts";
import type { ReadBody } from "../receive/read-body.ts";
import type { UploadRequest } from "../receive/request-facts.ts";
import type { LockLease } from "./write-lock.ts";
import { createKindDetector } from "../kind/detect-kind.ts";
import { RefusedFile } from "../slots/upload-error.ts";
import type { UploadStorage } from "../slots/upload-storage.ts";
import { folderOf } from "../store/layout.ts";

/** Reads the body of a step into parts; what came before it broke is kept. Gives the file as it is then. */
export type ReceiveStep = (
  request: UploadRequest,
  before: PartialFile,
  options: { readonly length: number | undefined; readonly lease: LockLease },
) => Promise<PartialFile>;

/** Makes the receiver of one endpoint. A step ends early when `leaving` aborts. */
export function createStepReceiver({
  storage,
  progress,
  readBody,
  leaving,
  onError,
}: {
  readonly storage: UploadStorage;
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly leaving: AbortSignal;
  readonly onError: (error: unknown) => void;
}): ReceiveStep {
  return async (request, before, { length, lease }) => {
    const { slot, facts, body } = request;
    const { uploadId, terms } = slot;
    const { fileId, offset, plan } = before;
    const most = length ?? terms.maxBytes;
    ensureSize(offset + (facts.contentLength ?? 0), most);
    const folder = folderOf(slot);
    const ensureOurs = (): void => lease.ensureOurs();
    const appender = createPartAppender(storage, { folder, fileId, offset, ensureOurs });
    // already as it comes, so that gigabytes of the wrong kind are not sent
    const detector = offset === 0 ? createKindDetector(plan, terms.accept) : undefined;
    progress.begin(slot, fileId, { received: offset, total: length });
    const signal = AbortSignal.any([request.signal, leaving]);
    try {
      await readBody({ body, signal }, (chunk) => {
        if (appender.offset + chunk.byteLength > most)
          throw new RefusedFile("too_large", `more than ${most} bytes came`);
        progress.add(uploadId, fileId, chunk.byteLength);
        request.onBytes(chunk.byteLength);
        const wait = appender.write(chunk);
        return detector?.add(chunk)?.then(() => wait) ?? wait;
      });
    } catch (error) {
      await appender.end().catch(onError);
      throw error;
    }
    const end = await appender.end();
    return { fileId, plan, offset: end, parts: [...before.parts, ...appender.keys] };
  };
}
