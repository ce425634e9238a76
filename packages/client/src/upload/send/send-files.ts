import { SluiceError } from "@sluice/core";
import { fairMsOf, withDeadline } from "../../net/timeouts.ts";
import type { FileSource, OpenFile } from "../source/file-source.ts";
import {
  startDigest,
  type RunningDigest,
  type OutgoingFile,
  type SendSettings,
  type SentFile,
} from "./outgoing-file.ts";
import { sendForm, sendRaw, shortBytes } from "./send-at-once.ts";
import { sendResumable, type StartedUpload } from "./send-resumable.ts";
import type { UploadTarget } from "../upload-target.ts";

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
    const inSteps = target.wire === "resumable" && file.size > shortBytes;
    await (inSteps ? sendResumable(transfer, begun) : sendRaw(transfer));
    return await describeSent(transfer);
  } finally {
    await file.close();
  }
}

async function describeSent({ source, file, digest }: OutgoingFile): Promise<SentFile> {
  const { name, mimeType } = source;
  return { name, size: file.size, mimeType, sha256: await digest.finish() };
}
