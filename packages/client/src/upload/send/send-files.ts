import { SluiceError } from "@sluice/core";
import { formatContentDisposition, formatReprDigest, smallerStep } from "@sluice/core/internal";
import type { OutgoingBody } from "../../net/outgoing-body.ts";
import { fairMsOf, withDeadline } from "../../net/timeouts.ts";
import type { FileSource, OpenFile } from "../source/file-source.ts";
import type { UploadTarget } from "../upload-target.ts";
import { multipartForm, uploadForm } from "./multipart.ts";
import {
  type OutgoingFile,
  type RunningDigest,
  type SendSettings,
  type SentFile,
  startDigest,
} from "./outgoing-file.ts";
import { countTries, ensureReceived, ensureTaken, sendRequest } from "./send-request.ts";
import { sendResumable, type StartedUpload } from "./send-resumable.ts";
import type { SenderAnswer } from "./sender.ts";
import { uploadError } from "./upload-error.ts";

/** One or more files for one target. */
export interface Shipment {
  readonly sources: readonly FileSource[];
  readonly target: UploadTarget;
  readonly signal: AbortSignal;
  /** Called with the bytes of all files that went out. */
  readonly onSent: (bytes: number, current: FileSource) => void;
  /** Where to resume the only file of the shipment. */
  readonly begun?: StartedUpload | undefined;
}

/**
 * Opens files, sends them and closes them. Gives what arrived, in the same order; rejects, with
 * nothing left open, when one of them did not. The whole may take 60 s and 1 s for every 64 KiB.
 */
export function sendFiles(
  shipment: Shipment,
  settings: SendSettings,
): Promise<readonly SentFile[]> {
  const { sources, target } = shipment;
  const bytes = sources.reduce((sum, { size }) => sum + size, 0);
  return withDeadline([shipment.signal], fairMsOf(bytes), tooLong, async (signal) => {
    const timed = { ...shipment, signal };
    if (target.wire === "multipart") return sendTogether(timed, settings);
    const sentFiles: SentFile[] = [];
    for (const source of sources) sentFiles.push(await sendOne(source, sentFiles, timed, settings));
    return sentFiles;
  });
}

function tooLong(): SluiceError {
  return new SluiceError("timeout", "client: the upload takes too long");
}

async function sendTogether(
  { sources, target, signal, onSent }: Shipment,
  settings: SendSettings,
): Promise<readonly SentFile[]> {
  const files: OpenFile[] = [];
  try {
    for (const source of sources) files.push(await source.open());
    const counts = files.map(() => 0);
    const digests = await Promise.all(files.map(startDigest));
    const transfers = sources.map((source, at): OutgoingFile => {
      const file = files[at] as OpenFile;
      const digest = digests[at] as RunningDigest;
      const report = (bytes: number): void => {
        if (counts[at] === bytes) return;
        counts[at] = bytes;
        onSent(
          counts.reduce((sum, count) => sum + count, 0),
          source,
        );
      };
      return { source, file, digest, target, settings, signal, onSent: report };
    });
    await sendForm(transfers);
    return await Promise.all(transfers.map(describeSent));
  } finally {
    await Promise.all(files.map((file) => file.close()));
  }
}

async function sendOne(
  source: FileSource,
  before: readonly SentFile[],
  { target, signal, onSent, begun }: Shipment,
  settings: SendSettings,
): Promise<SentFile> {
  const base = before.reduce((sum, { size }) => sum + size, 0);
  const file = await source.open();
  try {
    const report = (bytes: number): void => onSent(base + bytes, source);
    const digest = await startDigest(file);
    const transfer: OutgoingFile = {
      source,
      file,
      digest,
      target,
      settings,
      signal,
      onSent: report,
    };
    const { maxStepBytes = shortBytes } = settings.sender;
    const isLong = file.size > Math.min(shortBytes, maxStepBytes);
    const inSteps = target.wire === "resumable" && (isLong || begun?.location !== undefined);
    await (inSteps ? sendResumable(transfer, begun) : sendRaw(transfer, begun));
    return await describeSent(transfer);
  } finally {
    await file.close();
  }
}

async function describeSent({ source, file, digest }: OutgoingFile): Promise<SentFile> {
  const { name, mimeType } = source;
  return { name, size: file.size, mimeType, sha256: await digest.finish() };
}

/**
 * A file of at most this size is sent at once, even if it could go in steps, and is read before, for a digest in the
 * header.
 */
const shortBytes: number = 2 ** 20;

/**
 * Sends a file as the body of one request, and in steps after a proxy's 413 if the target takes them. A connection that
 * breaks ends it: the client cannot tell what the server kept.
 */
async function sendRaw(transfer: OutgoingFile, begun: StartedUpload | undefined): Promise<void> {
  const { source, file, digest, target } = transfer;
  const isShort = file.size <= shortBytes || transfer.settings.sender.blind;
  const sha256 = isShort ? await digest.finish() : undefined;
  const answer = await send(transfer, onePiece(transfer), {
    "content-type": source.mimeType,
    "content-disposition": formatContentDisposition(source.name),
    ...(sha256 === undefined ? {} : { "repr-digest": formatReprDigest(sha256) }),
  });
  if (target.wire === "resumable" && smallerStep(answer, file.size) !== undefined)
    return sendResumable(transfer, begun);
  ensureReceived(answer, { size: file.size, sha256: await digest.finish() });
}

/** Sends files as one form (SEP-1306 §5), all to the target of the first. */
async function sendForm(transfers: readonly OutgoingFile[]): Promise<void> {
  const [first] = transfers;
  if (!first) return;
  const { settings, target } = first;
  if (settings.sender.blind) for (const { digest } of transfers) await digest.finish();
  const files = transfers.map(({ source, file, digest }) => ({
    name: source.name,
    mimeType: source.mimeType,
    piece: { file, start: 0, end: file.size, seen: digest.see },
  }));
  const { body, contentType } = multipartForm(files, target.form ?? uploadForm);
  const answer = await send(first, body, { "content-type": contentType }, transfers);
  // a response to several describes no single one
  if (transfers.length > 1) return ensureTaken(answer);
  ensureReceived(answer, { size: first.file.size, sha256: await first.digest.finish() });
}

function onePiece({ file, digest }: OutgoingFile): OutgoingBody {
  return {
    length: file.size,
    pieces: file.size === 0 ? [] : [{ file, start: 0, end: file.size, seen: digest.see }],
  };
}

/** Retries only what the server cannot have started on. A file that changed is not the server's fault. */
async function send(
  transfer: OutgoingFile,
  body: OutgoingBody,
  headers: Record<string, string>,
  transfers: readonly OutgoingFile[] = [transfer],
): Promise<SenderAnswer> {
  const { target, settings, signal } = transfer;
  const tries = countTries(signal, settings.timeouts.pauseScale);
  for (;;) {
    let sentBytes = 0;
    try {
      const answer = await sendRequest(
        {
          method: target.method,
          url: target.url,
          headers,
          body,
          signal,
          onSent(bytes) {
            sentBytes += bytes;
            reportSent(sentBytes, transfers);
          },
        },
        target,
        settings,
      );
      if (answer.status !== 429 && answer.status !== 503) return answer;
      throw uploadError(answer);
    } catch (error) {
      if (SluiceError.is(error) && error.retryable)
        await Promise.all(transfers.map(({ file }) => file.ensureSame()));
      const isUnheard =
        SluiceError.is(error) && (error.code === "throttled" || error.code === "unavailable");
      if (!isUnheard) throw error;
      await tries.again(error);
    }
  }
}

/** Tells each file its part of the bytes that went out; what frames them is counted with them. */
function reportSent(sent: number, transfers: readonly OutgoingFile[]): void {
  let unsentBytes = sent;
  for (const { file, onSent } of transfers) {
    onSent(Math.min(unsentBytes, file.size));
    unsentBytes = Math.max(0, unsentBytes - file.size);
  }
}
