import type { CheckedFile } from "../checks/file-checks.ts";
import { newId } from "../slots/slots.ts";
import type { FileRecord } from "../store/layout.ts";
import { ensureSize, type ReceiverParts } from "./body-reader.ts";
import { digestOfWhole, type UploadRequest } from "./request-facts.ts";

/** Takes the whole body of a request as one file of its slot, or keeps nothing of it. */
export async function receiveFile(
  { files, quota, progress, readBody }: ReceiverParts,
  request: UploadRequest,
): Promise<FileRecord[]> {
  const { slot, facts, signal } = request;
  const { uploadId, owner, terms } = slot;
  const { contentLength: size, contentType: declaredType, name } = facts;
  const sha256 = digestOfWhole(facts);
  ensureSize(size, terms.maxBytes);
  const fileId = newId();
  await quota.hold(owner, fileId, size ?? terms.maxBytes);
  progress.begin(slot, fileId, { total: size });
  let received: CheckedFile;
  try {
    await files.ensureOpen(slot, signal);
    const announced = { fileId, name, declaredType, size, sha256 };
    const sink = await files.openSink(slot, announced, { signal });
    try {
      await readBody(request, (chunk) => {
        const wait = sink.write(chunk);
        progress.add(uploadId, fileId, chunk.byteLength);
        request.onBytes(chunk.byteLength);
        return wait;
      });
      received = await sink.finish();
    } catch (error) {
      await sink.abort();
      throw error;
    }
    return await files.store(slot, [{ fileId, ...received }], signal);
  } catch (error) {
    await quota.drop(owner, fileId);
    progress.drop(uploadId, fileId);
    throw error;
  }
}
