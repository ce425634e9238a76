// Bytes beside messages: Binary Transfer RFC, and what we add to it.

/**
 * Extension id under `capabilities.extensions`, where
 * official SDKs strip the literal field `binaryTransfer`, and under `_meta` of content and requests.
 */
export const BINARY_EXTENSION_ID = "dev.sluice/binary-transfer";

/**
 * How bytes travel beside messages (Binary Transfer RFC §1): in frames of stdio, in parts of a multipart body, in binary
 * frames of a WebSocket.
 */
export type BinaryMode = "stream" | "multipart" | "websocket-binary";

/** Refers from a message to bytes beside it (Binary Transfer RFC §2). */
export interface BinaryRef {
  /** UUID, random, used once. */
  readonly streamId: string;
  /** Bytes of the whole. */
  readonly size: number;
  /** SHA-256, 64 hex digits. Absent if it is not known before the first byte is sent. */
  readonly checksum?: string;
  /** Ours, towards peers that declared it: the bytes come in chunks between other messages. Absent: in one piece. */
  readonly interleave?: true;
}

/**
 * Notification, ours, between peers that declared to interleave, with `{ streamId, bytes }`: the
 * receiver takes this many more bytes, beyond the window that it declared.
 */
export const BINARY_CREDIT_METHOD = "notifications/binary/credit";

/**
 * Notification, ours, between peers that declared to interleave, with `{ streamId, reason }`: the sender or the receiver
 * gives the stream up before its last byte. `reason` is a `SluiceErrorCode`.
 */
export const BINARY_ABORT_METHOD = "notifications/binary/abort";

/** Content whose bytes come inside or beside a message (Binary Transfer RFC §2). */
export interface BinaryTransferContent {
  readonly type: "image" | "audio" | "blob";
  readonly transferMode: "base64" | "binary";
  readonly mimeType: string;
  /** Base64 with padding; with `transferMode: "base64"` only. */
  readonly data?: string;
  /** With `transferMode: "binary"` only. */
  readonly binaryRef?: BinaryRef;
}
