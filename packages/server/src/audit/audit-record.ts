import type { DeliveryMode, RevisionKind } from "@sluice/core/internal";

/**
 * What a caller did: `tree` asked for many files in one response, and each of them has a record `stream` of its own; `link` made a link, `download` is a request to a download URL or a link, `upload` a step of an upload,
 * `completion` the call that suggests names, and the others are calls of the method of that name.
 */
export type AuditAction =
  | "list"
  | "templates"
  | "read"
  | "subscribe"
  | "stream"
  | "tree"
  | "completion"
  | "link"
  | "download"
  | "upload";

/**
 * - `begun`: bytes are about to be sent; only where records are required, before the one of the end
 * - `complete`: every byte asked for was handed over, or there was none to send (HEAD, 304, a list)
 * - `offloaded`: the bytes were left to a proxy in front to send; whether they arrived is not known here
 * - `issued`: a download URL or a redirect was handed out
 * - `denied`: refused; `reason` says why
 * - `aborted`: the receiver went away in the middle
 * - `failed`: a fault of ours or of storage
 */
export type AuditOutcome =
  | "begun"
  | "complete"
  | "offloaded"
  | "issued"
  | "denied"
  | "aborted"
  | "failed";

/** One line of the audit trail: which principal got, or did not get, which resource, and how it went. */
export interface AuditRecord {
  /** Names the operation, the same in all its records. */
  readonly id: string;
  /** When it began, unix milliseconds. */
  readonly time: number;
  readonly action: AuditAction;
  readonly outcome: AuditOutcome;
  /**
   * Cause of anything but success: a `SluiceError` code, `hidden` where access rules said so, or one
   * of `spent`, `revoked`, `changed`; `refused` where a handler of the server's author said so.
   */
  readonly reason?: string;
  /**
   * Opaque tag of the principal: `principalTag` of @sluice/core, without its session where there is
   * a subject. Absent for the anonymous.
   */
  readonly principal?: string;
  /**
   * Absent when the request did not get as far as naming one. As the client sent it, but with control characters
   * percent-encoded and no longer than 4,096 characters.
   */
  readonly uri?: string;
  /**
   * Id of the grant, the same in the record of its issue and of each redemption. Not the token. With
   * `upload`, the id of the upload.
   */
  readonly grant?: string;
  /** Bytes of the resource handed over, or left to a proxy to send; with `upload`, bytes that were received or confirmed. */
  readonly bytes: number;
  readonly durationMs: number;
  /** With `upload`: which step it was. `inspect`, a look at how far it is, is recorded only where it was refused. */
  readonly step?: "reserve" | "receive" | "inspect" | "confirm" | "discard";
  /** Absent for `download` and `upload`, which do not know. */
  readonly revision?: RevisionKind;
  /** How the bytes travel. */
  readonly mode?: DeliveryMode | "link";
  /** With `list` and `templates`: how many were shown; with `tree`: how many files came; with `completion`: names that were suggested. */
  readonly shown?: number;
  /** With `list`: resources of the page that access rules kept back. */
  readonly withheld?: number;
  /**
   * The record stands for this many refusals of callers that were not identified, all alike in what else it says: the
   * first was at `time`, the last `durationMs` later. Absent for one by itself.
   */
  readonly count?: number;
  /**
   * Address of the client, where `addresses` of {@link AuditOptions} asks for it and it is known. With `count` also `many`:
   * there were too many to count each.
   */
  readonly address?: string;
}

/** Facts of an operation that runs, filled in as they become known. */
export type AuditFacts = { -readonly [K in keyof AuditRecord]?: AuditRecord[K] | undefined } & {
  action: AuditAction;
};
