import { SluiceError } from "@sluice/core";
import {
  definedMembers,
  parseMediaType,
  parseReprDigest,
  readSentDisposition,
  PARTIAL_UPLOAD_TYPE,
  sanitizeFileName,
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_OFFSET_HEADER,
} from "@sluice/core/internal";
import type { PlainRequest, RequestBody } from "@sluice/transport-http";
import type { OpenSlot } from "../slots/slot-token.ts";
import { uploadError } from "../slots/upload-error.ts";

/** A request that may send its body to a slot. */
export interface UploadRequest {
  readonly slot: OpenSlot;
  readonly facts: RequestFacts;
  readonly body: RequestBody | undefined;
  /** Aborts when the sender goes or the endpoint is closed. */
  readonly signal: AbortSignal;
  /** Counts bytes that came, for the record of the request. */
  readonly onBytes: (count: number) => void;
}

/** What the headers of a request with a body say. */
export interface RequestFacts {
  /** Bytes of the body; absent for a chunked body, unless another header announces the length. */
  readonly contentLength?: number | undefined;
  /** As it was sent. */
  readonly contentType?: string | undefined;
  /** Safe as a file name. */
  readonly name?: string | undefined;
  /** Of the whole file, lower-case hex. */
  readonly sha256?: string;
  /** `Content-Digest` as it was sent: of the body, which may be a part of the file, or a form. */
  readonly contentDigest?: string;
  /** Whether the body ends the file; absent if reaching the length does. */
  readonly complete?: boolean;
  readonly offset?: number;
  /** Bytes of the whole file. */
  readonly length?: number;
}

/**
 * Reads the facts. Throws `invalid_argument` if headers contradict each other or cannot be read, and `unsupported`
 * for a body that is encoded. Structured fields that are malformed count as absent (RFC 9651 §4.2).
 */
export function readFacts({ header }: Pick<PlainRequest, "header">): RequestFacts {
  // some clients send the header without a value
  const coding = header("content-encoding")?.trim() ?? "";
  if (coding !== "" && coding.toLowerCase() !== "identity")
    throw uploadError("unsupported", "send the file as it is, without Content-Encoding");
  const transfer = header("transfer-encoding");
  if (transfer !== undefined && transfer.toLowerCase() !== "chunked")
    throw malformed("Transfer-Encoding must be chunked");
  if (header("trailer") !== undefined) throw malformed("trailers are not supported");
  // a client that sends ranges expects the server to assemble them (RFC 9110 §14.4)
  if (header("content-range") !== undefined)
    throw malformed(
      "Content-Range is not supported; send the whole file, or steps with Upload-Offset and Upload-Complete",
    );
  const contentLength = lengthIn(header("content-length"), "Content-Length");
  if (contentLength !== undefined && transfer !== undefined)
    throw malformed("Content-Length and Transfer-Encoding exclude each other");
  const contentType = header("content-type");
  if (contentType !== undefined && !parseMediaType(contentType))
    throw malformed("Content-Type is malformed");
  return definedMembers({
    contentLength,
    contentType,
    name: nameIn(header("content-disposition")),
    sha256: sha256In("Repr-Digest", header("repr-digest")),
    contentDigest: header("content-digest"),
    complete: booleanIn(header(UPLOAD_COMPLETE_HEADER)),
    offset: integerIn(header(UPLOAD_OFFSET_HEADER)),
    length: integerIn(header(UPLOAD_LENGTH_HEADER)),
  });
}

/** Headers by which clients of any protocol say how long a file is. */
const lengthHeaders = [
  UPLOAD_LENGTH_HEADER,
  "oc-total-length",
  "x-amz-decoded-content-length",
  "x-expected-entity-length",
  "x-file-size",
  "x-goog-upload-header-content-length",
  "x-upload-content-length",
];
/** Headers that occur only in requests that send part of a file, or only announce one. */
const stepHeaders = [
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_OFFSET_HEADER,
  "oc-chunked",
  "upload-defer-length",
  "x-goog-upload-command",
  "x-goog-upload-offset",
  "x-goog-upload-protocol",
];
/** Query parameters, in lower case, by which clients of S3, Azure Blob Storage and of forms in parts name one. */
const stepParameters: ReadonlySet<string> = new Set([
  "blockid",
  "chunk",
  "comp",
  "dzchunkindex",
  "flowchunknumber",
  "partnumber",
  "qqpartindex",
  "resumablechunknumber",
  "uploadid",
]);
/** Media type of a step of tus. */
export const TUS_STEP_TYPE = "application/offset+octet-stream";
const stepTypes: ReadonlySet<string | undefined> = new Set([PARTIAL_UPLOAD_TYPE, TUS_STEP_TYPE]);

/**
 * The length of a body that is taken for a whole file, or a form, as far as any header says it. Throws
 * `invalid_argument` if a header belongs to another upload protocol: its client sends only part of the file, or nothing
 * of it, which would be stored as the whole.
 */
export function wholeLength(
  { header, body, target }: Pick<PlainRequest, "header" | "body" | "target">,
  { contentLength, contentType }: RequestFacts,
): number | undefined {
  const step = stepSign(header, target);
  if (step !== undefined || stepTypes.has(parseMediaType(contentType)?.essence))
    throw malformed(
      `${step ?? "the type of the body"} is of another upload protocol; send the whole file, or steps with Upload-Complete, or tus 1.0`,
    );
  // an empty file must say Content-Length: 0
  if (contentLength === undefined && !body)
    throw malformed("there is no body; send the file, or Content-Length: 0 for an empty one");
  if (parseMediaType(contentType)?.essence === "multipart/form-data") return contentLength;
  const announced = lengthHeaders.map((name) => lengthIn(header(name), name));
  const [length, ...others] = [contentLength, ...announced].filter((said) => said !== undefined);
  if (others.some((other) => other !== length))
    throw malformed(
      `the headers name several lengths, ${[length, ...others].join(" and ")} bytes; send the whole file in one body`,
    );
  return length;
}

/** The header or query parameter that occurs only in requests that send part of a file, or only announce one. */
function stepSign(header: PlainRequest["header"], target: string): string | undefined {
  const stepHeader = stepHeaders.find((name) => header(name) !== undefined);
  if (stepHeader !== undefined) return stepHeader;
  const incomplete = header("upload-incomplete");
  if (incomplete !== undefined && booleanIn(incomplete) !== false) return "upload-incomplete";
  const [, query = ""] = target.split("?", 2);
  return [...new URLSearchParams(query).keys()].find((name) =>
    stepParameters.has(name.toLowerCase()),
  );
}

/**
 * The SHA-256 of a request whose body is a whole file: then `Content-Digest` is a digest of the file as well (RFC 9530
 * §2). Throws `invalid_argument` for one that is malformed, or is not the one of `Repr-Digest`.
 */
export function digestOfWhole({ sha256, contentDigest }: RequestFacts): string | undefined {
  const ofContent = sha256In("Content-Digest", contentDigest);
  if (sha256 !== undefined && ofContent !== undefined && sha256 !== ofContent)
    throw malformed("Repr-Digest and Content-Digest of one file differ");
  return sha256 ?? ofContent;
}

function sha256In(field: string, value: string | undefined): string | undefined {
  const sha256 = parseReprDigest(value);
  if (value?.includes("sha-256") && sha256 === undefined) throw malformed(`${field} is malformed`);
  return sha256;
}

/** Header fields come as Latin-1 whatever their sender meant. */
function nameIn(disposition: string | undefined): string | undefined {
  const names = readSentDisposition(disposition)?.fileNames ?? [];
  return names.length === 0 ? undefined : sanitizeFileName(...names);
}

function lengthIn(text: string | undefined, field: string): number | undefined {
  if (text === undefined) return undefined;
  if (!/^\d{1,15}$/.test(text)) throw malformed(`${field} is malformed`);
  return Number(text);
}

/** An Item with a Boolean (RFC 9651 §3.3.6); its parameters mean nothing here. */
function booleanIn(text: string | undefined): boolean | undefined {
  const match = /^ *\?([01]) *(?:;.*)?$/.exec(text ?? "");
  return match ? match[1] === "1" : undefined;
}

/** An Item with an Integer that is not negative (RFC 9651 §3.3.1). */
function integerIn(text: string | undefined): number | undefined {
  const match = /^ *(\d{1,15}) *(?:;.*)?$/.exec(text ?? "");
  return match ? Number(match[1]) : undefined;
}

function malformed(why: string): SluiceError {
  return uploadError("invalid_argument", why);
}
