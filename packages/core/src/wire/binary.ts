// Bytes beside messages: Binary Transfer RFC, and what we add to it.

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
