import { readArrival, type Arrival } from "./arrival.ts";
import { createFileSink, type FileSink } from "./file-sink.ts";
import { bytesKey, folderOf } from "../store/layout.ts";
import { newId } from "../slots/random-id.ts";
import type { FileRecord } from "../store/records.ts";
import { RefusedFile } from "../slots/upload-error.ts";
import { openState, storeFiles } from "../store/store-files.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";

/** Takes a body that is one file. It becomes a file of the slot as a whole, or nothing of it is kept. */
export async function receiveRaw(parts: UploadsParts, arrival: Arrival): Promise<FileRecord[]> {
  const { slot, facts, signal } = arrival;
  const { ledger, board, storage } = parts;
  const { maxBytes, accept } = slot.terms;
  const { contentLength: size, contentType: declaredType, name, sha256 } = facts;
  ensureSize(size, maxBytes);
  const fileId = newId();
  const { uploadId, owner } = slot;
  await ledger.hold(owner, fileId, size ?? maxBytes);
  board.begin(slot, fileId, { total: size });
  let received: Awaited<ReturnType<FileSink["finish"]>>;
  try {
    await openState(parts, slot, signal);
    const sink = await createFileSink(
      storage,
      bytesKey(folderOf(slot), fileId),
      { name, declaredType, accept, maxBytes, size, sha256 },
      {
        signal,
        onBytes(count) {
          board.add(uploadId, fileId, count);
          arrival.onBytes(count);
        },
      },
    );
    try {
      await readArrival(parts, arrival, (chunk) => sink.write(chunk));
      received = await sink.finish();
    } catch (error) {
      await sink.abort();
      throw error;
    }
    return await storeFiles(parts, slot, [{ fileId, ...received }], signal);
  } catch (error) {
    await ledger.drop(owner, fileId);
    board.drop(uploadId, fileId);
    throw error;
  }
}

/** Refuses by the announced length what would be too large. */
export function ensureSize(size: number | undefined, maxBytes: number): void {
  if (size !== undefined && size > maxBytes)
    throw new RefusedFile("too_large", `at most ${maxBytes} bytes are taken`);
}
