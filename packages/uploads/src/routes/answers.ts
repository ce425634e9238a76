import { SluiceError } from "@sluice/core";
import {
  formatReprDigest,
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_LIMIT_HEADER,
  UPLOAD_OFFSET_HEADER,
} from "@sluice/core/internal";
import { problemOf, shieldHeaders, type Reply } from "@sluice/server/internal";
import type { FileProgress } from "../resumable/resumable-upload.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { detailOf, uploadsOrigin } from "../slots/upload-error.ts";
import type { FileRecord } from "../store/layout.ts";

// What the endpoint answers: https://datatracker.ietf.org/doc/draft-ietf-httpbis-resumable-upload §4,
// RFC 9457 for problems.

/** The reply for complete files, with all that their sender needs to name them in its answer. */
export function storedReply(uploadId: string, records: readonly FileRecord[]): Reply {
  const files = records.map(({ name, size, mimeType, sha256 }) => ({
    name,
    size,
    mimeType,
    sha256,
  }));
  const [first] = records;
  const isOne = files.length === 1;
  return jsonReply(
    201,
    { uploadId, status: "completed", ...(isOne && files[0]), files },
    isOne ? ["Repr-Digest", formatReprDigest(first!.sha256)] : [],
  );
}

/** The reply to a step that was received; `location` is the URL of a new file. */
export function steppedReply(slot: OpenSlot, file: FileProgress, location?: string): Reply {
  const locationHeaders = location === undefined ? [] : ["Location", location];
  const progress = [...locationHeaders, ...progressHeaders(slot, file)];
  if (file.record) {
    const reply = storedReply(slot.uploadId, [file.record]);
    return { ...reply, headers: [...reply.headers, ...progress] };
  }
  return location === undefined
    ? { status: 204, headers: [...progress, ...shieldHeaders] }
    : { status: 201, headers: [...progress, "Content-Length", "0", ...shieldHeaders] };
}

/** The reply that says how far a file is. */
export function offsetReply(slot: OpenSlot, file: FileProgress): Reply {
  return { status: 204, headers: [...progressHeaders(slot, file), ...shieldHeaders] };
}

function progressHeaders(slot: OpenSlot, { offset, length, record }: FileProgress): string[] {
  return [
    UPLOAD_OFFSET_HEADER,
    String(offset),
    UPLOAD_COMPLETE_HEADER,
    record ? "?1" : "?0",
    ...(length === undefined ? [] : [UPLOAD_LENGTH_HEADER, String(length)]),
    ...limitHeaders(slot),
  ];
}

/** What a slot accepts, and for how many more seconds. */
export function limitHeaders({ terms, expiresAt, maxStepBytes }: OpenSlot): string[] {
  const maxAge = Math.max(0, Math.floor((expiresAt - Date.now()) / 1_000));
  const step = maxStepBytes === undefined ? "" : `max-append-size=${maxStepBytes}, `;
  return [UPLOAD_LIMIT_HEADER, `max-size=${terms.maxBytes}, ${step}max-age=${maxAge}`];
}

/** An answer in JSON. */
export function jsonReply(
  status: number,
  value: object,
  headers: readonly string[] = [],
  contentType = "application/json",
): Reply {
  const text = JSON.stringify(value);
  const length = new TextEncoder().encode(text).length;
  return {
    status,
    headers: [
      "Content-Type",
      contentType,
      "Content-Length",
      String(length),
      ...headers,
      ...shieldHeaders,
    ],
    text,
  };
}

/** The problem for a refused request; internal faults and faults of storage reveal only their kind. */
export function refusalOf(error: unknown, slot: OpenSlot | undefined): Reply {
  const row = SluiceError.is(error) ? rows[error.code] : undefined;
  if (!row || !SluiceError.is(error)) return problemOf(error);
  const { code, size } = error;
  const isPublic = error.origin === uploadsOrigin;
  const detail = isPublic ? detailOf(error) : storageDetails[code];
  if (detail === undefined) return problemOf(error);
  const [status, title, reason] = row;
  const isOffset = code === "precondition_failed" && size !== undefined;
  const isFull = !isPublic && code === "no_space";
  const waitMs = isFull ? roomMs : error.retryAfterMs;
  const problem = {
    type: isOffset ? offsetProblem : "about:blank",
    title,
    status,
    reason: isFull ? "storage" : reason,
    detail,
    "expected-offset": isOffset ? size : undefined,
  };
  const headers = [
    ...(isOffset ? [UPLOAD_OFFSET_HEADER, String(size)] : []),
    ...(isPublic && code === "too_large" && slot ? limitHeaders(slot) : []),
    ...(waitMs === undefined ? [] : ["Retry-After", String(Math.ceil(waitMs / 1_000))]),
  ];
  return jsonReply(status, problem, headers, "application/problem+json");
}

/** Faults of storage that the sender can act on; all others are faults of the server. */
const storageDetails: { readonly [Code in SluiceError["code"]]?: string } = {
  no_space: "there is no room for the file at the moment",
  too_large: "files of that size are not accepted",
};

/** By default a sweep runs every minute, so room may appear by then. */
const roomMs = 60_000;

const offsetProblem = "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";

/** Status, title and reason by cause. */
const rows: { readonly [Code in SluiceError["code"]]?: readonly [number, string, string] } = {
  invalid_argument: [400, "Bad Request", "malformed"],
  permission_denied: [403, "Forbidden", "rejected"],
  not_found: [404, "Not Found", "unknown"],
  timeout: [408, "Request Timeout", "slow"],
  // a newer request has the file: clients of every protocol try again after a 503, and give up after a 400
  interrupted: [503, "Service Unavailable", "interrupted"],
  already_exists: [409, "Conflict", "taken"],
  precondition_failed: [409, "Conflict", "offset"],
  too_large: [413, "Content Too Large", "too_large"],
  unsupported: [415, "Unsupported Media Type", "type"],
  corrupt: [422, "Unprocessable Content", "digest"],
  throttled: [429, "Too Many Requests", "busy"],
  no_space: [507, "Insufficient Storage", "quota"],
  unavailable: [503, "Service Unavailable", "unavailable"],
};
