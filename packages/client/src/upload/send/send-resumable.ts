import { SluiceError } from "@sluice/core";
import {
  formatContentDisposition,
  PARTIAL_UPLOAD_TYPE,
  smallerStep,
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_LIMIT_HEADER,
  UPLOAD_OFFSET_HEADER,
} from "@sluice/core/internal";
import { isSuccess } from "../../net/http-status.ts";
import { uploadError } from "./upload-error.ts";
import { ensureReceived, countTries, sendRequest, type TargetRequest } from "./send-request.ts";
import type { SenderAnswer } from "./sender.ts";
import type { OutgoingFile } from "./outgoing-file.ts";
import { acceptLocation } from "../upload-target.ts";

/** An upload that an earlier run began. */
export interface StartedUpload {
  /** Where the rest goes, as the server named it. */
  readonly location?: string;
  /** Called with where the rest goes, for a later run. */
  readonly onLocation?: (location: string) => void | Promise<void>;
  /** Leave the bytes of an interrupted upload at the server. */
  readonly keep?: boolean;
}

/**
 * Sends a file in the steps of draft-ietf-httpbis-resumable-upload: creates an upload without bytes (§4.2), appends
 * what is left (§4.4), and after every fault asks how far the server is (§4.3). After a proxy's 413 the steps get smaller. Rejects with `protocol` for an
 * impossible offset, and with faults that could not be mended. An abandoned upload is cancelled, unless it is to be
 * kept: then the last `onSent` has the bytes that the server kept.
 */
export async function sendResumable(
  transfer: OutgoingFile,
  begun: StartedUpload = {},
): Promise<void> {
  const upload = createUpload(transfer, begun);
  try {
    await upload.run();
  } catch (error) {
    await (begun.keep ? upload.reportKept() : upload.cancel());
    throw error;
  }
}

/** How long a server may take to forget an abandoned upload. */
const cancelMs = 5_000;
/** How long a server may take to say what it kept of one: a person may be waiting for the end. */
const reportMs = 2_000;

function createUpload(transfer: OutgoingFile, begun: StartedUpload) {
  const { source, file, digest, target, settings, signal } = transfer;
  const { sender, trust, timeouts } = settings;
  const { size } = file;
  const tries = countTries(signal, timeouts.pauseScale);
  let location: URL | undefined;
  /** Bytes that the server has for good, as it last said; unknown after a fault. */
  let offset: number | undefined;
  /** Maximum that it can have: what it said before, and what was sent since. */
  let furthest = begun.location === undefined ? 0 : size;
  let least = 0;
  let stepBytes = sender.maxStepBytes ?? Infinity;

  function ask(request: Omit<TargetRequest, "signal">): Promise<SenderAnswer> {
    return sendRequest({ ...request, signal }, target, settings);
  }

  async function create(): Promise<void> {
    const answer = await ask({
      method: target.method,
      url: target.url,
      headers: {
        [UPLOAD_COMPLETE_HEADER]: "?0",
        [UPLOAD_LENGTH_HEADER]: `${size}`,
        "content-type": source.mimeType,
        "content-disposition": formatContentDisposition(source.name),
      },
      body: { length: 0, pieces: [] },
    });
    if (!isSuccess(answer.status)) throw uploadError(answer);
    const namedLocation = answer.headers.get("location");
    if (namedLocation === null)
      throw new SluiceError("protocol", "client: the server does not say where the file goes");
    location = acceptLocation(namedLocation, target, trust);
    applyLimits(answer);
    offset = 0;
    await begun.onLocation?.(location.href);
  }

  function applyLimits({ headers }: SenderAnswer): void {
    const limits = headers.get(UPLOAD_LIMIT_HEADER);
    const most = parseLimit(limits, "max-size");
    if (most !== undefined && size > most)
      throw new SluiceError("too_large", "client: larger than the server takes", { size });
    const step = parseLimit(limits, "max-append-size");
    if (step !== undefined && step > 0) stepBytes = Math.min(stepBytes, step);
  }

  /** Takes the offset that the server names. Throws `protocol` for an impossible one. */
  function acceptOffset(answer: SenderAnswer): void {
    const serverOffset = parseIntegerField(answer.headers.get(UPLOAD_OFFSET_HEADER));
    if (serverOffset === undefined || serverOffset > furthest || serverOffset < least)
      throw new SluiceError("protocol", "client: the server reports an impossible upload offset");
    offset = serverOffset;
    least = serverOffset;
    furthest = Math.max(furthest, serverOffset);
    tries.progressed(serverOffset);
    transfer.onSent(serverOffset);
  }

  /** Asks how far the server is; true when it has everything. */
  async function askOffset(at: URL): Promise<boolean> {
    const answer = await ask({ method: "HEAD", url: at, headers: {} });
    if (!isSuccess(answer.status)) throw uploadError(answer);
    acceptOffset(answer);
    applyLimits(answer);
    const isComplete = parseBooleanField(answer.headers.get(UPLOAD_COMPLETE_HEADER)) === true;
    if (isComplete && offset !== size)
      throw new SluiceError("protocol", "client: the server took a part of the file for the whole");
    return isComplete;
  }

  /** Sends what follows `start`; true when the server then has everything. */
  async function append(at: URL, start: number): Promise<boolean> {
    const end = Math.min(size, start + stepBytes);
    const isLast = end === size;
    await digest.catchUp(start);
    let sentOffset = start;
    const pieces = end > start ? [{ file, start, end, seen: digest.see }] : [];
    offset = undefined;
    // the platform does not report how much went out
    if (sender.blind) furthest = Math.max(furthest, end);
    const answer = await ask({
      method: "PATCH",
      url: at,
      headers: {
        [UPLOAD_OFFSET_HEADER]: `${start}`,
        [UPLOAD_COMPLETE_HEADER]: isLast ? "?1" : "?0",
        "content-type": PARTIAL_UPLOAD_TYPE,
      },
      body: { length: end - start, pieces },
      onSent(bytes) {
        sentOffset = Math.min(end, sentOffset + bytes);
        furthest = Math.max(furthest, sentOffset);
        transfer.onSent(sentOffset);
      },
    });
    const isComplete = parseBooleanField(answer.headers.get(UPLOAD_COMPLETE_HEADER)) === true;
    if (answer.status === 409 && answer.headers.has(UPLOAD_OFFSET_HEADER)) {
      acceptOffset(answer);
      // bytes of an earlier connection were still on their way: it is asked what became of them
      if (isComplete) offset = undefined;
      throw new SluiceError("interrupted", "client: the server is at another upload offset");
    }
    const smaller = smallerStep(answer, end - start);
    if (smaller !== undefined) {
      stepBytes = Math.min(stepBytes, smaller);
      applyLimits(answer);
      return false;
    }
    if (answer.status >= 300 || (isLast && isComplete)) {
      ensureReceived(answer, { size, sha256: await digest.finish() });
      return true;
    }
    // what it did take, it is asked again
    if (!answer.sentAll || isLast)
      throw new SluiceError("interrupted", "client: the server did not take everything at once");
    offset = end;
    least = end;
    tries.progressed(end);
    return false;
  }

  return {
    async run(): Promise<void> {
      if (begun.location !== undefined) location = acceptLocation(begun.location, target, trust);
      for (;;) {
        try {
          if (!location) await create();
          const at = location as unknown as URL;
          if (offset === undefined && (await askOffset(at))) return;
          if (await append(at, offset as unknown as number)) return;
        } catch (error) {
          if (SluiceError.is(error) && error.retryable) await file.ensureSame();
          await tries.again(error);
        }
      }
    },
    /** Reports what the server has kept, or last confirmed if it does not say. */
    async reportKept(): Promise<void> {
      let keptBytes = least;
      try {
        if (!location) return;
        const late = AbortSignal.timeout(reportMs);
        const request = { method: "HEAD", url: location, headers: {}, signal: late } as const;
        const { status, headers } = await sendRequest(request, target, settings);
        const serverOffset = parseIntegerField(headers.get(UPLOAD_OFFSET_HEADER));
        if (status === 404 || status === 410) keptBytes = 0;
        else if (
          isSuccess(status) &&
          serverOffset !== undefined &&
          serverOffset >= least &&
          serverOffset <= furthest
        )
          keptBytes = serverOffset;
      } catch {
        // what it confirmed is what is known
      } finally {
        transfer.onSent(keptBytes);
      }
    },
    /** Tells the server that the rest will not come. That may not arrive. */
    async cancel(): Promise<void> {
      if (!location) return;
      const url = location;
      try {
        const late = AbortSignal.timeout(cancelMs);
        await sendRequest({ method: "DELETE", url, headers: {}, signal: late }, target, settings);
      } catch {
        // it forgets what is not confirmed in time
      }
    },
  };
}

/** A non-negative integer of a structured field (RFC 9651 §3.3.1); `undefined` for anything else. */
export function parseIntegerField(text: string | null): number | undefined {
  const digits = /^ *(\d{1,15}) *(?:;.*)?$/.exec(text ?? "")?.[1];
  return digits === undefined ? undefined : Number(digits);
}

/** A boolean of a structured field (RFC 9651 §3.3.6); `undefined` for anything else. */
export function parseBooleanField(text: string | null): boolean | undefined {
  const bit = /^ *\?([01]) *(?:;.*)?$/.exec(text ?? "")?.[1];
  return bit === undefined ? undefined : bit === "1";
}

/** One integer of a dictionary such as `Upload-Limit` (RFC 9651 §3.2). */
export function parseLimit(text: string | null, key: string): number | undefined {
  for (const member of (text ?? "").split(",")) {
    const [name, value] = member.split("=", 2);
    if (name?.trim() === key) return parseIntegerField(value ?? null);
  }
  return undefined;
}
