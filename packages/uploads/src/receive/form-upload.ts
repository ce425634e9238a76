import { sanitizeFileName } from "@sluice/core/internal";
import { newId } from "../slots/slots.ts";
import { codeOf } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/layout.ts";
import type { ReceivedFile, SlotFiles } from "../store/slot-files.ts";
import type { FileSink } from "../store/file-sink.ts";
import { boundaryOf, createFormReader, type PartFacts, type PartReceiver } from "./form-reader.ts";
import { ensureSize, type ReceiverParts } from "./body-reader.ts";
import type { UploadRequest } from "./request-facts.ts";

/** Maximum bytes of a form besides those of its files: headers, boundaries, preamble, epilogue. */
const maxFramingBytes = 16 * 1024;

interface ComingFile {
  readonly fileId: string;
  readonly opening: Promise<FileSink>;
  sink?: FileSink;
  finishing?: Promise<ReceivedFile>;
}

/** Takes a form whose parts are files (SEP-1306 §5), or keeps nothing of it. */
export async function receiveForm(
  receiving: ReceiverParts,
  request: UploadRequest,
): Promise<FileRecord[]> {
  const { files, quota, progress } = receiving;
  const { slot, facts, signal } = request;
  const { terms, owner, uploadId } = slot;
  const boundary = boundaryOf(facts.contentType ?? "");
  const maxBytes = terms.maxBytes * terms.maxFiles + maxFramingBytes;
  ensureSize(facts.contentLength, maxBytes);
  // how the bytes are divided is not known yet
  const formId = newId();
  await quota.hold(owner, formId, facts.contentLength ?? maxBytes);
  progress.begin(slot, formId, { total: facts.contentLength });
  const coming: ComingFile[] = [];
  try {
    const received = await readForm(receiving, request, { formId, boundary, coming });
    await countFiles(receiving, { owner, formId }, received);
    // from here on `store` removes what it cannot store
    coming.length = 0;
    return await files.store(slot, received, signal);
  } catch (error) {
    await Promise.allSettled(coming.map(discard));
    for (const { fileId } of coming) await quota.drop(owner, fileId);
    await quota.drop(owner, formId);
    progress.drop(uploadId, formId);
    throw error;
  }
}

async function readForm(
  { files, progress, readBody }: ReceiverParts,
  request: UploadRequest,
  {
    formId,
    boundary,
    coming,
  }: { readonly formId: string; readonly boundary: string; readonly coming: ComingFile[] },
): Promise<ReceivedFile[]> {
  const { slot, signal } = request;
  const { places } = await files.ensureOpen(slot, signal);
  const reader = createFormReader(boundary, slot.terms.maxFiles - places.length, (facts) => {
    const file = openPart(files, request, facts);
    coming.push(file);
    return receiverOf(file);
  });
  try {
    await readBody(request, (chunk) => {
      progress.add(slot.uploadId, formId, chunk.byteLength);
      request.onBytes(chunk.byteLength);
      return reader.write(chunk);
    });
    reader.end();
  } catch (error) {
    reader.stop();
    throw error;
  }
  return Promise.all(coming.flatMap(({ finishing }) => finishing ?? []));
}

function openPart(
  files: SlotFiles,
  { slot, facts, signal }: UploadRequest,
  { fileName, contentType }: PartFacts,
): ComingFile {
  const fileId = newId();
  const opening = files.openSink(
    slot,
    {
      fileId,
      name: sanitizeFileName(fileName),
      declaredType: contentType,
      expectedBytes: facts.contentLength,
    },
    // a signal for each file, so that listeners do not pile up on that of the form
    { signal: AbortSignal.any([signal]) },
  );
  const file: ComingFile = { fileId, opening };
  opening.then(
    (sink) => (file.sink = sink),
    () => {},
  );
  return file;
}

function receiverOf(file: ComingFile): PartReceiver {
  const { fileId, opening } = file;
  return {
    data(chunk) {
      if (file.sink) return file.sink.write(chunk);
      return opening.then((sink) => sink.write(chunk));
    },
    end() {
      file.finishing = opening.then(async (sink) => ({ fileId, ...(await sink.finish()) }));
      // `readForm` waits for all of them, and throws the error
      file.finishing.catch(() => {});
    },
  };
}

/** Counts the files in place of the form. All bytes have come, so a store that is down now does not end the upload. */
async function countFiles(
  { quota, onError }: ReceiverParts,
  { owner, formId }: { readonly owner: string; readonly formId: string },
  received: readonly ReceivedFile[],
): Promise<void> {
  await quota.drop(owner, formId);
  try {
    for (const { fileId, size } of received) await quota.hold(owner, fileId, size);
  } catch (error) {
    if (codeOf(error) !== "unavailable") throw error;
    onError(error);
  }
}

async function discard({ opening, finishing }: ComingFile): Promise<void> {
  await finishing?.catch(() => {});
  const sink = await opening;
  await sink.abort();
}
