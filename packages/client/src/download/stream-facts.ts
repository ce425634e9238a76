import type { DeliveryMode } from "@sluice/core/wire";

/** What is known about a resource before its first byte is read. */
export interface StreamFacts {
  readonly uri: string;
  /** How the server delivers the bytes. */
  readonly mode: DeliveryMode;
  /** As the server says; `application/octet-stream` when it says nothing. */
  readonly mimeType: string;
  /** Bytes; absent when the server does not know before it has sent them. */
  readonly size?: number;
  /** A name for a file: one safe path component, made of what the server suggests. Untrusted as a label. */
  readonly name: string;
  /**
   * Content coding, such as `gzip`, that the storage keeps the bytes in. They are given and saved as
   * they are stored; size, digest and ranges are those of the coded bytes.
   */
  readonly contentEncoding?: string;
  /** Strong validator with quotes. Without one, a broken transfer cannot go on where it stopped. */
  readonly etag?: string;
  /** SHA-256 in hex that the bytes will be checked against. */
  readonly digest?: string;
  /** Milliseconds for which the server takes these facts and the content for fresh, when it says so. */
  readonly ttlMs?: number;
  /** Origin that the bytes come from; absent where the MCP server's own is unknown. */
  readonly origin?: string;
  /**
   * False when nothing ties the bytes to this resource: they come from another origin, and the MCP
   * server gave neither their length nor a digest.
   */
  readonly vouched: boolean;
}

/** A resource on its way. Read `body` to its end or cancel it. */
export interface ResourceStream extends StreamFacts {
  /**
   * The bytes, once. Nothing is read before the first pull. A broken connection mends itself; a
   * clean end means that length and digest are right, where they were promised. Errors with a
   * `SluiceError`, or with `signal.reason`.
   */
  readonly body: ReadableStream<Uint8Array>;
}
