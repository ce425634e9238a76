// `resources/stream`: SEP-2532, and what we add to it.
import type { TreeBounds } from "./tree.ts";

/** Method name (SEP-2532 §3). */
export const STREAM_METHOD = "resources/stream";

/**
 * Extension id (SEP-2133) under `capabilities.extensions` and under `_meta` of resources, templates
 * and results, where official SDKs strip the literal fields of SEP-2532.
 */
export const EXTENSION_ID = "dev.sluice/resource-streaming";

/** Response header that names the resource whose bytes follow (SEP-2532 §3): `parseResourceUri` reads it. */
export const RESOURCE_URI_HEADER = "mcp-resource-uri";

/** Ours: headers of a redirect that tell the media type and the bytes of the resource, which storage may not tell. */
export const RESOURCE_TYPE_HEADER = "mcp-resource-type";
export const RESOURCE_SIZE_HEADER = "mcp-resource-size";

/** Request header with which a proxy in front says that it sends files itself. Never from or to a client. */
export const OFFLOAD_HEADER = "x-sluice-offload";

/**
 * `rel` of the `Link` at which a stream continues: of bytes (docs/protocol/streaming.md) or of
 * events (SEP-1335).
 */
export const STREAM_RELATION = "stream";

/**
 * Declaration of a client, literally as `capabilities.resourceStreaming` and mirrored in the
 * extension.
 */
export interface ClientStreaming {
  /** Largest stream in bytes that the client accepts (SEP-2532 §1). Absent: any. */
  readonly maxStreamSize?: number;
  /**
   * Ours, extension only: modes that the client prefers, best first. Absent: the server chooses.
   */
  readonly prefer?: readonly DeliveryMode[];
  /** Ours, extension only: bounds of responses with many files. Absent: the client takes none. */
  readonly tree?: TreeBounds;
}

export const deliveryModes = ["direct", "redirect", "downloadUrl"] as const;

/** How bytes travel (SEP-2532 §3): as the HTTP response itself, behind its redirect, or behind a URL in its result. */
export type DeliveryMode = (typeof deliveryModes)[number];

/** `result` of a `resources/stream` call that answers with a URL (SEP-2532 §3, download URL mode). */
export interface DownloadUrlResult {
  readonly uri: string;
  readonly mimeType?: string;
  /** Bytes of the whole object. */
  readonly size?: number;
  /** Absolute URL for a GET. */
  readonly downloadUrl: string;
}

/** Our additions to a download URL result, under `_meta[EXTENSION_ID]`. */
export interface DownloadUrlMeta {
  /** `bound`: send the session's credentials with the GET. `self`: the URL is enough. Absent means `bound`. */
  readonly auth: "bound" | "self";
  /** ISO 8601 date-time, from which the URL is refused. */
  readonly expiresAt: string;
  /** Strong validator with quotes, as in the `ETag` header. */
  readonly etag?: string;
  /** Digest of the whole object, as in the `Repr-Digest` header (RFC 9530). */
  readonly digest?: string;
  /** File name as the server suggests it. Untrusted. */
  readonly name?: string;
  /** Milliseconds for which this result may be used without asking again. Absent means 0. */
  readonly ttlMs?: number;
  /** True when the URL belongs to a session: a client without other credentials sends its `Mcp-Session-Id`. */
  readonly sessionBound?: boolean;
}
