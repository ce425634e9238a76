import { smallerStep } from "@sluice/core/internal";
import { type Answer, Interrupted, send } from "./http.ts";
import { isWhole, type BegunFile } from "./overview.ts";

/** The file cannot be sent to this place, whatever is tried. */
export class Refused extends Error {
  readonly status: number;
  /** The server's word for why, see its `reason`. */
  readonly reason: string;
  constructor({ status, json }: Pick<Answer, "status" | "json">) {
    super(`refused with ${status}`);
    this.status = status;
    this.reason = String((json as { readonly reason?: unknown } | undefined)?.reason);
  }
}

/** A file that is there, as the answer names it. */
export interface Receipt {
  readonly name: string;
  readonly size: number;
  readonly mimeType: string;
  readonly sha256?: string;
}

/** What is sent: a file, or what stands for one whose bytes are all there. */
export type Source = Pick<File, "name" | "size" | "type" | "slice">;

/** One file on its way. What it knows survives pauses and broken connections. */
export interface Transfer {
  /** Where the server keeps it, once it does. */
  location?: string;
  /** Bytes that the server has for certain. */
  offset: number;
  /** Maximum bytes of one request. */
  stepBytes: number;
  /** Whether its first bytes are of another page. */
  isTakenUp: boolean;
}

/** Nothing has happened yet, or `begun` has. */
export function newTransfer(slotUrl: string, begun?: BegunFile): Transfer {
  // proxies limit what one request may carry, and what was sent in it can be lost with it
  const transfer: Transfer = { offset: 0, stepBytes: 16 * 1024 * 1024, isTakenUp: false };
  if (begun) goOnWith(transfer, slotUrl, begun);
  return transfer;
}

/** The id of its file, once the server has one. */
export function fileIdOf({ location }: Transfer): string | undefined {
  return location?.slice(location.lastIndexOf("/") + 1);
}

function forget(transfer: Transfer): void {
  delete transfer.location;
  transfer.offset = 0;
  transfer.isTakenUp = false;
}

function goOnWith(transfer: Transfer, slotUrl: string, { fileId, received }: BegunFile): void {
  transfer.location = `${slotUrl}/${fileId}`;
  transfer.offset = received;
  transfer.isTakenUp = true;
}

/**
 * Sends a file, or what is left of it (draft-ietf-httpbis-resumable-upload): it is created empty, so that its address is
 * known before the first byte, and goes in steps. Rejects with {@link Interrupted} when it is worth another try.
 */
export async function sendFile(
  file: Source,
  slotUrl: string,
  transfer: Transfer,
  { signal, onOffset, find }: SendFileOptions,
): Promise<Receipt> {
  const begun = transfer.location === undefined ? await find(signal) : undefined;
  if (begun) goOnWith(transfer, slotUrl, begun);
  let answer =
    transfer.location === undefined
      ? await create(file, slotUrl, transfer, signal)
      : await ask(transfer, signal);
  if (begun?.received === 0 && transfer.offset > 0) {
    // what came since then was not compared with this file
    forget(transfer);
    throw new Interrupted("The server was busy.");
  }
  onOffset(transfer.offset);
  while (!isComplete(answer)) {
    const start = transfer.offset;
    const end = Math.min(file.size, start + transfer.stepBytes);
    const body = file.slice(start, end);
    answer = await send({
      method: "PATCH",
      url: transfer.location!,
      headers: {
        "content-type": "application/partial-upload",
        "upload-offset": `${start}`,
        "upload-complete": end === file.size ? "?1" : "?0",
      },
      body,
      signal,
      onSent: (bytes) => onOffset(start + Math.min(bytes, end - start)),
    }).catch(async (error: unknown) => {
      // of a file that it cannot read a browser says what it says of a lost connection
      if (error instanceof Interrupted) await ensureReadable(body);
      throw error;
    });
    // it is elsewhere, for example because of a request of ours that seemed lost: the next try asks
    if (answer.status === 409 && offsetOf(answer) !== undefined)
      throw new Interrupted("The server was busy.");
    const smaller = smallerStep(answer, end - start);
    if (smaller === undefined) note(answer, transfer, end);
    else {
      transfer.stepBytes = smaller;
      answer = await ask(transfer, signal);
    }
    onOffset(transfer.offset);
  }
  const receipt = receiptOf(answer, file);
  if (transfer.isTakenUp && file instanceof File && !(await isWhole(file, receipt))) {
    // begun with another version of it
    await removeSent(transfer);
    forget(transfer);
    throw new Interrupted("The file has changed since it was begun.");
  }
  return receipt;
}

/** Rejects with the browser's error when a part of a file cannot be read: it was changed, moved, or is a folder. */
async function ensureReadable(part: Blob): Promise<void> {
  const patience = new Promise<void>((resolve) => setTimeout(resolve, readMs));
  await Promise.race([part.arrayBuffer(), patience]);
}

/** A drive that is slow to answer proves nothing. */
const readMs = 10_000;

interface SendFileOptions {
  readonly signal: AbortSignal;
  readonly onOffset: (bytes: number) => void;
  /** Looks for the file at the server, where the answer to its beginning was lost. */
  readonly find: (signal: AbortSignal) => Promise<BegunFile | undefined>;
}

/** Takes back what was sent; false when the server may still have it. */
export async function removeSent({ location }: Transfer): Promise<boolean> {
  if (location === undefined) return true;
  const signal = AbortSignal.timeout(10_000);
  try {
    const { status } = await send({ method: "DELETE", url: location, signal });
    return status < 300 || status === 404;
  } catch {
    return false;
  }
}

async function create(
  file: Source,
  slotUrl: string,
  transfer: Transfer,
  signal: AbortSignal,
): Promise<Answer> {
  const answer = await send({
    method: "POST",
    url: slotUrl,
    headers: {
      "content-type": typeOf(file),
      "content-disposition": `attachment; filename*=UTF-8''${encode(file.name)}`,
      "upload-complete": "?0",
      "upload-length": `${file.size}`,
    },
    signal,
  });
  note(answer, transfer, 0);
  const location = answer.header("location");
  if (location === undefined) throw new Refused({ status: 502, json: undefined });
  transfer.location = new URL(location, slotUrl).href;
  return answer;
}

/** How far the server is. */
async function ask(transfer: Transfer, signal: AbortSignal): Promise<Answer> {
  const answer = await send({ method: "HEAD", url: transfer.location!, signal });
  if (answer.status === 404) {
    // nothing of it is left, which is no reason not to begin anew
    forget(transfer);
    throw new Interrupted("The server lost what was sent.");
  }
  note(answer, transfer, 0);
  return answer;
}

/** Statuses of servers that are busy, restarting or behind a proxy that lost them. */
const passing = new Set([408, 423, 425, 429, 500, 502, 503, 504]);

function ensureTaken(answer: Answer): void {
  const { status } = answer;
  if (status >= 200 && status < 300) return;
  if (passing.has(status)) throw new Interrupted("The server is busy.", waitMsOf(answer));
  const refusal = new Refused(answer);
  if (refusal.reason !== "interrupted") throw refusal;
  throw new Interrupted("Another tab or window sends this file.", 5_000);
}

function waitMsOf(answer: Answer): number | undefined {
  const seconds = Number(answer.header("retry-after") ?? Number.NaN);
  return Number.isFinite(seconds) && seconds >= 0 ? seconds * 1_000 : undefined;
}

function isComplete(answer: Answer): boolean {
  return answer.header("upload-complete") === "?1";
}

function offsetOf(answer: Answer): number | undefined {
  const text = answer.header("upload-offset");
  return text !== undefined && /^\d{1,15}$/.test(text) ? Number(text) : undefined;
}

/** Keeps what an answer says of the upload; where it says nothing, the server took what it was sent. */
function note(answer: Answer, transfer: Transfer, otherwise: number): void {
  ensureTaken(answer);
  transfer.offset = offsetOf(answer) ?? otherwise;
  const [, limit] = /max-append-size=(\d{1,15})/.exec(answer.header("upload-limit") ?? "") ?? [];
  if (limit !== undefined)
    transfer.stepBytes = Math.max(1, Math.min(transfer.stepBytes, Number(limit)));
}

/** In the server's words, where its answer was not lost. */
function receiptOf({ json }: Answer, file: Source): Receipt {
  const { name, mimeType, sha256 } = (json ?? {}) as Partial<Receipt>;
  return {
    name: name ?? file.name,
    size: file.size,
    mimeType: mimeType ?? typeOf(file),
    ...(sha256 !== undefined && { sha256 }),
  };
}

function typeOf({ type }: Source): string {
  return type === "" ? "application/octet-stream" : type;
}

/** RFC 8187. */
function encode(name: string): string {
  return encodeURIComponent(name.replace(/\p{Surrogate}/gu, "\ufffd")).replace(
    /['()*]/g,
    (sign) => `%${sign.codePointAt(0)!.toString(16).toUpperCase()}`,
  );
}
