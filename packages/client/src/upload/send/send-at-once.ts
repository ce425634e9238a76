import { SluiceError } from "@sluice/core";
import { formatContentDisposition, formatReprDigest } from "@sluice/core/internal";
import { multipartForm, uploadForm } from "./multipart.ts";
import { uploadError } from "./upload-error.ts";
import { ensureReceived, ensureTaken, sendRequest, countTries } from "./send-request.ts";
import type { OutgoingBody } from "../../net/outgoing-body.ts";
import type { SenderAnswer } from "./sender.ts";
import type { OutgoingFile } from "./outgoing-file.ts";

/**
 * A file of at most this size is sent at once, even if it could go in steps, and is read before, for a digest in the
 * header.
 */
export const shortBytes: number = 2 ** 20;

/**
 * Sends a file as the body of one request. A connection that breaks ends it: the client cannot tell what the server
 * kept.
 */
export async function sendRaw(transfer: OutgoingFile): Promise<void> {
  const { source, file, digest } = transfer;
  const isShort = file.size <= shortBytes || transfer.settings.sender.blind;
  const sha256 = isShort ? await digest.finish() : undefined;
  const answer = await send(transfer, onePiece(transfer), {
    "content-type": source.mimeType,
    "content-disposition": formatContentDisposition(source.name),
    ...(sha256 === undefined ? {} : { "repr-digest": formatReprDigest(sha256) }),
  });
  ensureReceived(answer, { size: file.size, sha256: await digest.finish() });
}

/** Sends files as one form (SEP-1306 §5), all to the target of the first. */
export async function sendForm(transfers: readonly OutgoingFile[]): Promise<void> {
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
