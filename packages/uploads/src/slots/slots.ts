import type { Principal } from "@sluice/core";
import { encodeBase64Url } from "@sluice/core/internal";
import type { OpenedObject, OpenOptions } from "@sluice/storage";
import type { RequestBody } from "@sluice/transport-http";

/** What may be sent to a slot. */
export interface SlotTerms {
  /** Media types (`image/png`), ranges (`image/*`) and extensions (`.pdf`). Empty: everything. At most about 900 bytes together. */
  readonly accept: readonly string[];
  /** Largest file, in bytes. The server's own limit counts where it is smaller. */
  readonly maxBytes: number;
  readonly maxFiles: number;
  /** What every file must hash to: lower-case hex of SHA-256. Default: anything. */
  readonly sha256?: string | undefined;
}

/** A place to send files to: a URL and what may go there. */
export interface Slot {
  /** 32 characters of base64url. A name, not a credential. */
  readonly uploadId: string;
  /** A secret where the slot authenticates itself. */
  readonly url: string;
  readonly method: "POST";
  /** Unix milliseconds. */
  readonly expiresAt: number;
  /** As the server holds them. */
  readonly terms: SlotTerms;
}

/** Settings of one slot. */
export interface ReserveOptions {
  /** Life in milliseconds. Default and maximum: `tokenLifetimes.upload` of @sluice/core. */
  readonly ttlMs?: number;
  /**
   * The URL alone lets its holder send, without a bearer token: a browser that opens it has none.
   * Files still belong to the principal. Default: only where there is no principal.
   */
  readonly selfAuthenticating?: boolean;
  /**
   * Owner (`Identity.owner`) whose share of the state store a stored token uses. Default: the principal. Empty: the
   * common share of unverified callers.
   */
  readonly share?: string | undefined;
}

/** A file as an answer names it. Nothing of it is believed before it agrees with what was received. */
export interface ClaimedFile {
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256?: string;
}

/** Settings of one confirmation. */
export interface ConfirmOptions {
  readonly signal?: AbortSignal;
  /**
   * What to do if a received file is not named. `refuse`: remove the whole upload. `remove`: keep only the named files.
   * Default: `refuse`.
   */
  readonly unnamed?: "refuse" | "remove";
}

interface ReadOptions {
  readonly signal?: AbortSignal;
}

/** A confirmed file. */
export interface UploadedFile {
  readonly uploadId: string;
  /** Safe as a file name; still the sender's word. */
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly scan: "clean" | "unscanned";
  /** Its bytes, as storage opens them. */
  open(options?: OpenOptions): Promise<OpenedObject>;
  /** All bytes, in memory: `size`, which is at most the `maxBytes` of its field. `open` gives them as a stream. */
  bytes(options?: ReadOptions): Promise<Uint8Array<ArrayBuffer>>;
  /** The same as text: UTF-8, or UTF-16 with a byte order mark. Invalid bytes become U+FFFD. */
  text(options?: ReadOptions): Promise<string>;
  /** Releases it. Idempotent. */
  remove(): Promise<void>;
}

/** Bytes that have come for a slot. */
export interface UploadProgress {
  readonly bytes: number;
  /** Absent while the length of a file is not known. */
  readonly totalBytes?: number;
}

/** A file that the server gets itself: its bytes, or where they come from. */
type KeptFile = {
  /** Default: `file`. */
  readonly name?: string | undefined;
  readonly mimeType?: string | undefined;
} & (
  | { readonly bytes: Uint8Array }
  | {
      readonly body: RequestBody;
      /** Bytes, where they are known. */
      readonly size?: number | undefined;
    }
);

/** Slots, from their reservation to the files that came. */
export interface Slots {
  /**
   * Makes a slot. Any process with the same keys and state store serves it. A slot that authenticates itself has a
   * URL of 35 characters below the endpoint where tokens are stored; all others are sealed, and nothing is stored.
   * Rejects with a `TypeError` or `RangeError` for invalid terms, and with errors of the state store.
   */
  reserve(
    principal: Principal | undefined,
    terms: SlotTerms,
    options?: ReserveOptions,
  ): Promise<Slot>;
  /**
   * Makes the files of a slot readable, once: the same principal must name every one of them as it
   * was received. `not_found` for an unknown slot or one of another principal, `already_exists` for a second time;
   * `precondition_failed` where the claims disagree, after which nothing of the upload is kept.
   */
  confirm(
    principal: Principal | undefined,
    uploadId: string,
    files: readonly ClaimedFile[],
    options?: ConfirmOptions,
  ): Promise<readonly UploadedFile[]>;
  /** What came whole for a slot, as `confirm` would want it named. `not_found` for a slot of another principal, or nothing yet. */
  received(
    principal: Principal | undefined,
    uploadId: string,
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly ClaimedFile[]>;
  /** The files of a slot that was confirmed for this principal and not removed; else `not_found`. */
  reopen(
    principal: Principal | undefined,
    uploadId: string,
    options?: { readonly signal?: AbortSignal },
  ): Promise<readonly UploadedFile[]>;
  /**
   * Takes a file that the server gets itself, such as one inside a message, the way the endpoint and
   * `confirm` would: checked, scanned, counted and then the principal's. Memory is constant.
   */
  keep(
    principal: Principal | undefined,
    file: KeptFile,
    terms: SlotTerms,
    options?: { readonly signal?: AbortSignal },
  ): Promise<UploadedFile>;
  /** Removes what has come for a slot. The slot stays open until it expires. Idempotent. */
  discard(uploadId: string): Promise<void>;
  /**
   * Ends a slot of this principal before its time: removes what came, and refuses what is sent from then on, in every
   * process. Leaves files that were confirmed. Idempotent. Rejects with errors of storage.
   */
  revoke(
    principal: Principal | undefined,
    slot: Pick<Slot, "uploadId" | "expiresAt">,
  ): Promise<void>;
  /** What this process has received for a slot. */
  progress(uploadId: string): UploadProgress;
}

/** 192 random bits: 32 characters of base64url. */
export function newId(): string {
  return encodeBase64Url(crypto.getRandomValues(new Uint8Array(24)));
}

/** True for what {@link newId} makes. Asked before an id of a request is used for anything. */
export function isId(text: string): boolean {
  return /^[A-Za-z0-9_-]{32}$/.test(text);
}
