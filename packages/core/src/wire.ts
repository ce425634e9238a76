/**
 * The vocabulary both ends share: names and numbers of the protocol, each in exactly one place.
 * @module
 */
import type { SluiceErrorCode } from "./errors/error.ts";

/** Method name (SEP-2532 §3). */
export const STREAM_METHOD = "resources/stream";

/**
 * Extension id (SEP-2133) under `capabilities.extensions` and under `_meta` of resources, templates
 * and results, where official SDKs strip the literal fields of SEP-2532.
 */
export const EXTENSION_ID = "dev.sluice/resource-streaming";

/** Response header that names the resource whose bytes follow (SEP-2532 §3). */
export const RESOURCE_URI_HEADER = "mcp-resource-uri";

/** Request header that repeats the method for gateways; servers hold it against the body (2026-07-28). */
export const METHOD_HEADER = "mcp-method";

/** Request header that repeats `params.uri` for gateways (2026-07-28). */
export const NAME_HEADER = "mcp-name";

/** Request header with which a proxy in front says that it sends files itself. Never from or to a client. */
export const OFFLOAD_HEADER = "x-sluice-offload";

/** JSON-RPC code of a request whose headers contradict its body (2026-07-28), with HTTP 400. */
export const HEADER_MISMATCH_CODE = -32020;

/**
 * Extension id under `_meta` of an entry of `uploadEndpoints` (SEP-1306 §2) and of an upload descriptor
 * (SEP-2631): what the endpoint takes beside the multipart form that every one takes.
 */
export const UPLOADS_EXTENSION_ID = "dev.sluice/uploads";

/** What `_meta[UPLOADS_EXTENSION_ID]` of an upload endpoint says. Absent fields mean the least. */
export interface UploadEndpointMeta {
  /**
   * `raw`: one file as the body of a `POST`. `resumable`: also in steps, as
   * draft-ietf-httpbis-resumable-upload describes. Absent: multipart only.
   */
  readonly wire?: "raw" | "resumable";
  /** `bound`: send the session's credentials with the bytes. `self`: the URL is enough. Absent means `bound`. */
  readonly auth?: "bound" | "self";
  /** True when the bytes must also carry the `Mcp-Session-Id` of the session (legacy era). */
  readonly sessionBound?: boolean;
  /** ISO 8601 date-time. */
  readonly expiresAt?: string;
  /** Most files, where `multiple` is true. */
  readonly maxFiles?: number;
}

/** Method with which a server asks the user for something (MCP; mode `binary`: SEP-1306 §2). */
export const ELICIT_METHOD = "elicitation/create";

/** What a client declares as `capabilities.elicitation.binary` (SEP-1306 §1). */
export interface BinaryElicitation {
  /** Largest file in bytes. */
  readonly maxFileSize?: number;
  /** Media types and ranges. Absent means everything. */
  readonly supportedMimeTypes?: readonly string[];
}

/** A property of `requestedSchema` that is to be a file (SEP-1306 §2). */
export interface FileFieldSchema {
  readonly type: "file";
  readonly title?: string;
  readonly description?: string;
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`). Absent means everything. */
  readonly accept?: readonly string[];
  /** Largest file in bytes. */
  readonly maxSize?: number;
  readonly multiple?: boolean;
  /** The same as being listed in the `required` of the whole. */
  readonly required?: boolean;
}

/** Where the files of one field go (SEP-1306 §2). */
export interface UploadEndpoint {
  readonly url: string;
  readonly method: "POST" | "PUT";
  readonly uploadId: string;
  readonly _meta?: { readonly [UPLOADS_EXTENSION_ID]?: UploadEndpointMeta };
}

/** A file in the answer (SEP-1306 §3). */
export interface AnsweredFile {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  readonly uploadId: string;
  /** Ours: lower-case hex. */
  readonly sha256?: string;
}

/** Methods of SEP-2631 §6 and §8, which is a draft: experimental. */
export const AUTHORIZE_UPLOAD_METHOD = "files/authorizeUpload";
export const AUTHORIZE_DOWNLOAD_METHOD = "files/authorizeDownload";

/** Keyword of a schema that makes a URI string a file (SEP-2631 §5). */
export const FILE_KEYWORD = "x-mcp-file";

/** Scheme of the URIs that name files to be transferred (SEP-2631 §4), which no resource has. */
export const FILE_URI_SCHEME = "mcp-file:";

/** What `x-mcp-file` says (SEP-2631 §5). */
export interface FileInputDescriptor {
  readonly accept?: readonly string[];
  /** Largest file in bytes, decoded. */
  readonly maxSize?: number;
  /** Absent: the client chooses. */
  readonly transferModes?: readonly ("inline" | "upload")[];
}

/** A file as it is named to a peer (SEP-2631 §4). */
export interface FileValue {
  readonly uri: string;
  readonly name?: string;
  readonly mimeType?: string;
  /** Bytes. */
  readonly size?: number;
  /** `value` is base64url without padding. */
  readonly digest?: { readonly algorithm: "sha-256"; readonly value: string };
  /** Ours: `expiresAt`, until when the URI is good. */
  readonly _meta?: { readonly [UPLOADS_EXTENSION_ID]?: Pick<UploadEndpointMeta, "expiresAt"> };
}

/** How to move the bytes (SEP-2631 §6 and §8). */
export interface FileTransferDescriptor {
  readonly transport: "https";
  readonly method: "GET" | "POST" | "PUT";
  readonly url: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly multipart?: {
    readonly fileField: string;
    readonly fields?: Readonly<Record<string, string>>;
  };
  /** ISO 8601 date-time. Optional in the draft; ours always has it. */
  readonly expiresAt: string;
  /** Under {@link UPLOADS_EXTENSION_ID} of an upload, under {@link EXTENSION_ID} of a download. */
  readonly _meta?: {
    readonly [UPLOADS_EXTENSION_ID]?: UploadEndpointMeta;
    readonly [EXTENSION_ID]?: DownloadUrlMeta;
  };
}

/** Header fields of draft-ietf-httpbis-resumable-upload §4.1: integer, boolean (`?0`, `?1`), integer, dictionary. */
export const UPLOAD_OFFSET_HEADER = "upload-offset";
export const UPLOAD_COMPLETE_HEADER = "upload-complete";
export const UPLOAD_LENGTH_HEADER = "upload-length";
export const UPLOAD_LIMIT_HEADER = "upload-limit";

/** Media type of the body that goes on with an upload (the same draft, §6). */
export const PARTIAL_UPLOAD_TYPE = "application/partial-upload";

/** `rel` of the `Link` at which a stream goes on: of bytes (docs/protocol/streaming.md) or of events (SEP-1335). */
export const STREAM_RELATION = "stream";

/** First protocol revision without sessions and without resumable event streams. */
export const FIRST_MODERN_VERSION = "2026-07-28";

/** Protocol era of a peer: sessions and `initialize` (2025-11-25 and older), or stateless (2026-07-28 on). */
export type Era = "legacy" | "modern";

/** What a client declares, literally as `capabilities.resourceStreaming` and mirrored in the extension. */
export interface ClientStreaming {
  /** Largest stream in bytes that the client accepts (SEP-2532 §1). */
  readonly maxStreamSize?: number;
  /** Ours, extension only: answers the client would rather have, best first. */
  readonly prefer?: readonly DeliveryMode[];
}

/** The three ways bytes travel (SEP-2532 §3). */
export type DeliveryMode = "direct" | "redirect" | "downloadUrl";

/** `result` of a `resources/stream` call that answers with a URL (SEP-2532 §3, download URL mode). */
export interface DownloadUrlResult {
  readonly uri: string;
  readonly mimeType?: string;
  /** Bytes. */
  readonly size?: number;
  readonly downloadUrl: string;
}

/** What we add to a download URL result under `_meta[EXTENSION_ID]`. */
export interface DownloadUrlMeta {
  /** `bound`: send the session's credentials with the GET. `self`: the URL is enough. Absent means `bound`. */
  readonly auth: "bound" | "self";
  /** ISO 8601 date-time. */
  readonly expiresAt: string;
  /** Strong validator with quotes, as in the `ETag` header. */
  readonly etag?: string;
  /** As in the `Repr-Digest` header (RFC 9530). */
  readonly digest?: string;
  /** File name as the server suggests it. Untrusted. */
  readonly name?: string;
  /** Milliseconds for which what is said here may be used without asking again; absent means 0. */
  readonly ttlMs?: number;
  /** True when the URL belongs to a session of the legacy era: a client without other credentials sends its `Mcp-Session-Id`. */
  readonly sessionBound?: boolean;
}

/**
 * Extension id of binary transfer (Binary Transfer RFC) under `capabilities.extensions`, where
 * official SDKs strip the literal field `binaryTransfer`, and under `_meta` of content and requests.
 */
export const BINARY_EXTENSION_ID = "dev.sluice/binary-transfer";

/** How bytes travel beside messages (Binary Transfer RFC §1). */
export type BinaryMode = "stream" | "multipart" | "websocket-binary";

/** Refers from a message to bytes beside it (Binary Transfer RFC §2). */
export interface BinaryRef {
  /** A random UUID, used once. */
  readonly streamId: string;
  /** Bytes. */
  readonly size: number;
  /** SHA-256 in hex, where it is known before the first byte is sent. */
  readonly checksum?: string;
  /** Ours, towards peers that declared it: the bytes come in chunks between other messages. */
  readonly interleave?: true;
}

/**
 * Notification, ours, between peers that declared to interleave: the receiver of `streamId` takes
 * `bytes` more of it, beyond the window that it declared.
 */
export const BINARY_CREDIT_METHOD = "notifications/binary/credit";

/**
 * Notification, ours, between peers that declared to interleave: the sender or the receiver of
 * `streamId` gives it up before its last byte. `reason` is a `SluiceErrorCode`.
 */
export const BINARY_ABORT_METHOD = "notifications/binary/abort";

/** Content whose bytes come inside or beside a message (Binary Transfer RFC §2). */
export interface BinaryTransferContent {
  readonly type: "image" | "audio" | "blob";
  readonly transferMode: "base64" | "binary";
  readonly mimeType: string;
  /** Base64, with `transferMode: "base64"`. */
  readonly data?: string;
  /** With `transferMode: "binary"`. */
  readonly binaryRef?: BinaryRef;
}

/** `error.data.reason` of every JSON-RPC error we emit; clients switch on it before the number. */
export type Reason =
  | "not_found"
  | "stream_unsupported"
  | "too_large"
  | "forbidden"
  | "busy"
  | "client_capability"
  | "invalid"
  | "internal"
  | "interrupted";

/** One row of the error table. */
export interface ErrorRow {
  readonly reason: Reason;
  /** The only text that goes over the wire. */
  readonly message: string;
  /** JSON-RPC code towards each era. */
  readonly legacy: number;
  readonly modern: number;
  /** What a receiver makes of it. */
  readonly code: SluiceErrorCode;
}

/**
 * JSON-RPC errors by era (docs/protocol/streaming.md, table "Errors"). Modern forbids −32002 and keeps
 * −32020…−32099 for the specification, hence two columns.
 */
export const errorTable: readonly ErrorRow[] = [
  {
    reason: "not_found",
    message: "Resource not found",
    legacy: -32002,
    modern: -32602,
    code: "not_found",
  },
  {
    reason: "stream_unsupported",
    message: "Stream not supported",
    legacy: -32003,
    modern: -25323,
    code: "unsupported",
  },
  {
    reason: "too_large",
    message: "Resource too large",
    legacy: -32004,
    modern: -25324,
    code: "too_large",
  },
  {
    reason: "forbidden",
    message: "Permission denied",
    legacy: -32603,
    modern: -25325,
    code: "permission_denied",
  },
  {
    reason: "busy",
    message: "Busy, try again later",
    legacy: -32603,
    modern: -25326,
    code: "throttled",
  },
  {
    reason: "client_capability",
    message: "The client did not declare resourceStreaming",
    legacy: -32600,
    modern: -32021,
    code: "unsupported",
  },
  {
    reason: "invalid",
    message: "Invalid params",
    legacy: -32602,
    modern: -32602,
    code: "invalid_argument",
  },
  {
    reason: "internal",
    message: "Internal error",
    legacy: -32603,
    modern: -32603,
    code: "internal",
  },
  {
    reason: "interrupted",
    message: "Interrupted, send the request again",
    legacy: -32603,
    modern: -32603,
    code: "interrupted",
  },
];
