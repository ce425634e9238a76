import { sanitizeFileName, SluiceError } from "@sluice/core";
import { systemClock, within } from "@sluice/core/async";
import { readArrival, type Arrival } from "./arrival.ts";
import { createFileSink, type FileSink } from "./file-sink.ts";
import { bytesKey, folderOf } from "../store/layout.ts";
import { boundaryOf, createMultipartFence, formTypeOf } from "./multipart-fence.ts";
import type { CreateParser } from "./multipart-parser.ts";
import { newId } from "../slots/random-id.ts";
import { ensureSize } from "./raw-upload.ts";
import type { FileRecord } from "../store/records.ts";
import { openState, storeFiles, type ReceivedFile } from "../store/store-files.ts";
import type { UploadsParts } from "../slots/uploads-parts.ts";
import { uploadError } from "../slots/upload-error.ts";

/** What a form may have beside the bytes of its files: headers, boundaries, preamble, epilogue. */
const aroundBytes = 16 * 1024;

interface ComingFile {
  readonly fileId: string;
  readonly opening: Promise<FileSink>;
  sink?: FileSink;
  finishing?: Promise<ReceivedFile>;
}

/**
 * Takes a form whose parts are files (SEP-1306 §5). All of them become files of the slot, or nothing of
 * the form is kept.
 */
export async function receiveForm(
  parts: UploadsParts,
  arrival: Arrival,
  createParser: CreateParser,
): Promise<FileRecord[]> {
  const { slot, facts, signal } = arrival;
  const { ledger, board } = parts;
  const { terms, owner, uploadId } = slot;
  const boundary = boundaryOf(facts.contentType ?? "");
  const most = terms.maxBytes * terms.maxFiles + aroundBytes;
  ensureSize(facts.contentLength, most);
  // nobody knows yet how the bytes are divided
  const formId = newId();
  await ledger.hold(owner, formId, facts.contentLength ?? most);
  board.begin(slot, formId, { total: facts.contentLength });
  const coming: ComingFile[] = [];
  try {
    const { places } = await openState(parts, slot, signal);
    const fence = createMultipartFence(boundary, terms.maxFiles - places.length);
    const parser = createParser(formTypeOf(boundary), () => {
      const part = fence.parts[coming.length];
      if (!part) throw uploadError("invalid_argument", "the form can be read in two ways");
      return receivePart(parts, arrival, part, coming);
    });
    try {
      await readArrival(parts, arrival, (chunk) => {
        fence.check(chunk);
        board.add(uploadId, formId, chunk.byteLength);
        arrival.onBytes(chunk.byteLength);
        return parser.write(chunk);
      });
      fence.end();
      // all of it is there, so nobody but the parser is waited for
      await within(parser.end(), {
        clock: systemClock,
        timeoutMs: 30_000,
        expired: () => uploadError("timeout", "the form was not taken apart in time"),
        signal,
      });
    } catch (error) {
      parser.destroy();
      throw error;
    }
    const finished = coming.flatMap(({ finishing }) => finishing ?? []);
    if (finished.length !== fence.parts.length)
      throw uploadError("invalid_argument", "the form can be read in two ways");
    const received = await Promise.all(finished);
    await countFiles(parts, owner, { formId, received });
    // what cannot be stored is removed there
    coming.length = 0;
    return await storeFiles(parts, slot, received, signal);
  } catch (error) {
    await Promise.allSettled(coming.map(discard));
    for (const { fileId } of coming) await ledger.drop(owner, fileId);
    await ledger.drop(owner, formId);
    board.drop(uploadId, formId);
    throw error;
  }
}

/** Lets the files take the place of the form. All of it has come, so a store that is down now is no reason to refuse it. */
async function countFiles(
  { ledger, host }: UploadsParts,
  owner: string,
  { formId, received }: { readonly formId: string; readonly received: readonly ReceivedFile[] },
): Promise<void> {
  await ledger.drop(owner, formId);
  try {
    for (const { fileId, size } of received) await ledger.hold(owner, fileId, size);
  } catch (error) {
    if (!SluiceError.is(error) || error.code !== "unavailable") throw error;
    host.onError(error);
  }
}

async function discard({ opening, finishing }: ComingFile): Promise<void> {
  await finishing?.catch(() => {});
  const sink = await opening;
  await sink.abort();
}

function receivePart(
  { storage }: UploadsParts,
  { slot, facts, signal }: Arrival,
  {
    fileName,
    contentType,
  }: { readonly fileName: string; readonly contentType: string | undefined },
  coming: ComingFile[],
): { data(chunk: Uint8Array): Promise<void> | undefined; end(): void } {
  const { maxBytes, accept } = slot.terms;
  const fileId = newId();
  const name = sanitizeFileName(fileName);
  const expectedBytes = facts.contentLength;
  const terms = { name, declaredType: contentType, accept, maxBytes, expectedBytes };
  const key = bytesKey(folderOf(slot), fileId);
  // one of its own for every file: listeners do not pile up at the one of the form
  const own = AbortSignal.any([signal]);
  const opening = createFileSink(storage, key, terms, { signal: own, onBytes: () => {} });
  const file: ComingFile = { fileId, opening };
  coming.push(file);
  opening.then(
    (sink) => (file.sink = sink),
    () => {},
  );
  return {
    data(chunk) {
      if (file.sink) return file.sink.write(chunk);
      return opening.then((sink) => sink.write(chunk));
    },
    end() {
      file.finishing = opening.then(async (sink) => ({ fileId, ...(await sink.finish()) }));
      // it is thrown where all of them are waited for
      file.finishing.catch(() => {});
    },
  };
}
