import type { AuditRecord } from "./audit-record.ts";

/**
 * Takes the records, one at a time, and may take its time. What it throws or rejects with goes to
 * `onError`; where records are required, it also ends the operation.
 */
export type AuditSink = (record: AuditRecord) => void | Promise<void>;

/** A chained file that records go to, of `openAuditFile` of `@sluice/server/node`. */
export interface AuditFile {
  readonly path: string;
  /** Nothing is sent, shown or issued without its record. To keep what can be kept, pass `{ file, required: false }`. */
  readonly required: true;
  /**
   * Resolves when the record is kept, rejects with `unavailable` when it is not. Records are kept in the order of the calls.
   * While the disk is full, a refusal resolves without being kept: a later line says how many there were.
   */
  readonly sink: AuditSink;
  /** Waits for pending writes and closes the file. Idempotent. */
  readonly close: () => Promise<void>;
}

/**
 * A sink or a file, and what depends on it.
 *
 * Each operation is one record, and each refusal of a caller that was identified. Of a caller that was not, the
 * first refusals of a kind (action, step, outcome, reason, grant, address) in a minute are a record each: 5, and 32 KiB of all kinds
 * together. The others of that kind are counted in one record at the end of the minute, or when `close` of the Sluice is called.
 */
export type AuditOptions = AuditSettings &
  (
    | {
        readonly sink: AuditSink;
        /** Called by `close` of the Sluice, after the last record. */
        readonly close?: () => Promise<void>;
        readonly file?: never;
      }
    | {
        /** A file of `openAuditFile`, in place of a sink. `close` of the Sluice closes it. */
        readonly file: AuditFile;
        readonly sink?: never;
      }
  );

interface AuditSettings {
  /**
   * No record, no bytes: nothing is sent, shown or issued before the sink has its record, and a
   * record that is not there after 5 s counts as missing. Default: true for a file, false for a sink.
   */
  readonly required?: boolean;
  /**
   * Whether records have the address of the client, where it is known. It is personal data in many places: keep it
   * no longer than you may. Default false.
   */
  readonly addresses?: boolean;
}

/** What `audit` of `createSluice` takes. A file by itself is required. */
export type AuditInput = AuditSink | AuditFile | AuditOptions;

interface AuditTerms {
  /** `undefined` if no records are wanted. */
  readonly sink: AuditSink | undefined;
  readonly required: boolean;
  readonly addresses: boolean;
  readonly close: (() => Promise<void>) | undefined;
}

/** Reads `audit` of `createSluice`. Throws a `TypeError` for an object that has not exactly one of `sink` and `file`. */
export function readAudit(input: AuditInput | undefined): AuditTerms {
  if (input === undefined || typeof input === "function")
    return { sink: input, required: false, addresses: false, close: undefined };
  const settings: AuditSettings &
    Partial<Pick<AuditFile, "sink" | "close">> & { readonly file?: AuditFile } = input;
  const { file, addresses = false } = settings;
  const { sink, close, required = false } = file ? { ...file, ...settings } : settings;
  if (typeof sink !== "function" || (file && settings.sink))
    throw new TypeError(
      "createSluice: audit is a function, a file of openAuditFile, { sink } or { file }",
    );
  return { sink, required, addresses, close };
}
