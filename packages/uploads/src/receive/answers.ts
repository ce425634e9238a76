import { formatReprDigest, SluiceError } from "@sluice/core";
import {
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_LIMIT_HEADER,
  UPLOAD_OFFSET_HEADER,
} from "@sluice/core/wire";
import { problemOf, shieldHeaders, type Reply } from "@sluice/server/transport";
import type { FileRecord } from "../store/layout.ts";
import type { FileProgress } from "../resumable/resumable-upload.ts";
import type { OpenSlot } from "../slots/slot-token.ts";
import { detailOf, uploadsOrigin } from "../slots/upload-error.ts";

// What the endpoint answers: https://datatracker.ietf.org/doc/draft-ietf-httpbis-resumable-upload §4,
// RFC 9457 for problems.

/** Files are whole: all that their sender needs to name them in its answer. */
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

/** A step of a file was taken; `location` is the URL of a file that is new. */
export function steppedReply(slot: OpenSlot, file: FileProgress, location?: string): Reply {
  if (file.record) {
    const reply = storedReply(slot.uploadId, [file.record]);
    return { ...reply, headers: [...reply.headers, ...progressHeaders(slot, file)] };
  }
  const isNew = location !== undefined;
  return {
    status: isNew ? 201 : 204,
    headers: [
      ...(isNew ? ["Location", location, "Content-Length", "0"] : []),
      ...progressHeaders(slot, file),
      ...shieldHeaders,
    ],
  };
}

/** How far a file is. */
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

/** What a slot takes, and for how many seconds still. */
export function limitHeaders({ terms, expiresAt }: OpenSlot): string[] {
  const maxAge = Math.max(0, Math.floor((expiresAt - Date.now()) / 1_000));
  return [UPLOAD_LIMIT_HEADER, `max-size=${terms.maxBytes}, max-age=${maxAge}`];
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

/** What a request got wrong, as a problem; faults of ours and of storage say no more than their kind. */
export function refusalOf(error: unknown, slot: OpenSlot | undefined): Reply {
  const row = SluiceError.is(error) ? rows[error.code] : undefined;
  if (!row || !SluiceError.is(error) || error.origin !== uploadsOrigin)
    return storageRefusalOf(error) ?? problemOf(error);
  const [status, title, reason] = row;
  const isOffset = error.code === "precondition_failed" && error.size !== undefined;
  const isSize = error.code === "too_large" && slot !== undefined;
  const { retryAfterMs } = error;
  return jsonReply(
    status,
    {
      type: isOffset ? offsetProblem : "about:blank",
      title,
      status,
      reason,
      detail: detailOf(error),
      ...(isOffset && { "expected-offset": error.size }),
    },
    [
      ...(isOffset ? [UPLOAD_OFFSET_HEADER, String(error.size)] : []),
      ...(isSize ? limitHeaders(slot) : []),
      ...(retryAfterMs === undefined
        ? []
        : ["Retry-After", String(Math.ceil(retryAfterMs / 1_000))]),
    ],
    "application/problem+json",
  );
}

/** What storage has no room for, or takes at no time; `undefined` for other faults. */
function storageRefusalOf(error: unknown): Reply | undefined {
  const code = SluiceError.is(error) ? error.code : undefined;
  if (code !== "no_space" && code !== "too_large") return undefined;
  const isFull = code === "no_space";
  const [status, title] = rows[code]!;
  return jsonReply(
    status,
    {
      type: "about:blank",
      title,
      status,
      reason: isFull ? "storage" : "too_large",
      detail: isFull
        ? "there is no room for the file at the moment"
        : "no file of that size is taken",
    },
    isFull ? ["Retry-After", String(roomSeconds)] : [],
    "application/problem+json",
  );
}

/** A disk that is full stays so until it is swept, each minute, or tidied up. */
const roomSeconds = 60;

const offsetProblem = "https://iana.org/assignments/http-problem-types#mismatching-upload-offset";

/** Status, title and reason by cause. */
const rows: { readonly [Code in SluiceError["code"]]?: readonly [number, string, string] } = {
  invalid_argument: [400, "Bad Request", "malformed"],
  permission_denied: [403, "Forbidden", "rejected"],
  not_found: [404, "Not Found", "unknown"],
  timeout: [408, "Request Timeout", "slow"],
  interrupted: [400, "Bad Request", "interrupted"],
  already_exists: [409, "Conflict", "taken"],
  precondition_failed: [409, "Conflict", "offset"],
  too_large: [413, "Content Too Large", "too_large"],
  unsupported: [415, "Unsupported Media Type", "type"],
  corrupt: [422, "Unprocessable Content", "digest"],
  throttled: [429, "Too Many Requests", "busy"],
  no_space: [507, "Insufficient Storage", "quota"],
  unavailable: [503, "Service Unavailable", "unavailable"],
};
