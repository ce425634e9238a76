import { sanitizeFileName, type SluiceError } from "@sluice/core";
import { within } from "@sluice/core/async";
import type { QuotaTracker } from "../quota/quota-tracker.ts";
import { newId } from "../slots/random-id.ts";
import { codeOf, uploadError } from "../slots/upload-error.ts";
import type { ReceivedFile, SlotFiles } from "../store/slot-files.ts";
import type { FileSink } from "./file-sink.ts";
import type { PartReceiver } from "./form-parser.ts";
import { boundaryOf, createFormValidator, formTypeOf, type PartFacts } from "./form-validator.ts";
import type { ProgressTracker } from "./progress-tracker.ts";
import { ensureSize, type ReceiveFiles } from "./raw-upload.ts";
import type { ReadBody } from "./read-body.ts";
import type { UploadRequest } from "./request-facts.ts";

/** What a form may have beside the bytes of its files: headers, boundaries, preamble, epilogue. */
const aroundBytes = 16 * 1024;
/** How long the parser may take once all of the form is there. */
const parserMs = 30_000;

interface ComingFile {
  readonly fileId: string;
  readonly opening: Promise<FileSink>;
  sink?: FileSink;
  finishing?: Promise<ReceivedFile>;
}

/** Takes forms whose parts are files (SEP-1306 §5). The parser cuts what the validator has let through. */
export function createFormReceiver({
  files,
  quota,
  progress,
  readBody,
  onError,
}: {
  readonly files: SlotFiles;
  readonly quota: QuotaTracker;
  readonly progress: ProgressTracker;
  readonly readBody: ReadBody;
  readonly onError: (error: unknown) => void;
}): ReceiveFiles {
  function receivePart(
    { slot, facts, signal }: UploadRequest,
    { fileName, contentType }: PartFacts,
    coming: ComingFile[],
  ): PartReceiver {
    const fileId = newId();
    const opening = files.openSink(
      slot,
      {
        fileId,
        name: sanitizeFileName(fileName),
        declaredType: contentType,
        expectedBytes: facts.contentLength,
      },
      // one of its own for every file: listeners do not pile up at the one of the form
      { signal: AbortSignal.any([signal]) },
    );
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

  /** Reads the form into files. Gives them when the parser and the validator found the same parts. */
  async function readForm(
    request: UploadRequest,
    {
      formId,
      boundary,
      coming,
    }: { readonly formId: string; readonly boundary: string; readonly coming: ComingFile[] },
  ): Promise<ReceivedFile[]> {
    const { slot, signal } = request;
    const { places } = await files.stateOf(slot, signal);
    const validator = createFormValidator(boundary, slot.terms.maxFiles - places.length);
    // only forms need it, and it needs streams of Node, which other runtimes may lack
    const { createFastifyParser } = await import("./form-parser.ts");
    const parser = createFastifyParser(formTypeOf(boundary), () => {
      const part = validator.parts[coming.length];
      if (!part) throw ambiguous();
      return receivePart(request, part, coming);
    });
    try {
      await readBody(request, (chunk) => {
        validator.check(chunk);
        progress.add(slot.uploadId, formId, chunk.byteLength);
        request.onBytes(chunk.byteLength);
        return parser.write(chunk);
      });
      validator.end();
      await within(parser.end(), {
        timeoutMs: parserMs,
        expired: () => uploadError("timeout", "the form was not taken apart in time"),
        signal,
      });
    } catch (error) {
      parser.destroy();
      throw error;
    }
    const finished = coming.flatMap(({ finishing }) => finishing ?? []);
    if (finished.length !== validator.parts.length) throw ambiguous();
    return Promise.all(finished);
  }

  /** Lets the files take the place of the form. All of it has come, so a store that is down now is no reason to refuse it. */
  async function countFiles(
    owner: string,
    formId: string,
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

  return async (request) => {
    const { slot, facts, signal } = request;
    const { terms, owner, uploadId } = slot;
    const boundary = boundaryOf(facts.contentType ?? "");
    const most = terms.maxBytes * terms.maxFiles + aroundBytes;
    ensureSize(facts.contentLength, most);
    // how the bytes are divided is not known yet
    const formId = newId();
    await quota.hold(owner, formId, facts.contentLength ?? most);
    progress.begin(slot, formId, { total: facts.contentLength });
    const coming: ComingFile[] = [];
    try {
      const received = await readForm(request, { formId, boundary, coming });
      await countFiles(owner, formId, received);
      // what cannot be stored is removed there
      coming.length = 0;
      return await files.store(slot, received, signal);
    } catch (error) {
      await Promise.allSettled(coming.map(discard));
      for (const { fileId } of coming) await quota.drop(owner, fileId);
      await quota.drop(owner, formId);
      progress.drop(uploadId, formId);
      throw error;
    }
  };
}

async function discard({ opening, finishing }: ComingFile): Promise<void> {
  await finishing?.catch(() => {});
  const sink = await opening;
  await sink.abort();
}

function ambiguous(): SluiceError {
  return uploadError("invalid_argument", "the form can be read in two ways");
}
