import type { ByteRange, Sink, Source } from "@sluice/core";
import type { UnlistedCounts } from "./unlisted.ts";

/**
 * One storage service, one principal, one root. Backends are object literals checked with
 * `satisfies StorageBackend`. Presence is support: an operation that a service lacks is a
 * method that is not there.
 *
 * Every method rejects with a `SluiceError` (failure-class, failure-rejects), or with
 * `signal.reason` after an abort (abort-mid-body). Backends reject at once and never sleep or retry
 * (failure-at-once): the wrappers of this package do that, once. Names in parentheses are rules of the conformance kit.
 *
 * A key is literal text: no character in it has a special meaning, and no case or form of a letter stands for another
 * one, unless the service itself takes them for one (key-near, key-confusable). `write`, `writeInSteps` and `remove`
 * take the same spelling (write-spelling, steps-spelling). Another process sees what this one has written or removed,
 * as far as the service is consistent (write-process).
 */
export interface StorageBackend {
  /** Short stable name that starts messages: "fs", "s3", "azure-blob", "graph" (failure-message). Never shown to clients. */
  readonly name: string;
  /** Metadata of one object. Never transfers content (describe-no-content). */
  describe(key: string, options?: CallOptions): Promise<ObjectInfo>;
  /** Opens one object once: `info` describes exactly the bytes that `body` yields (open-info, condition-mixed). */
  readonly open: OpenOperation;
  /** One page of objects. Pages may be short or empty; only a missing cursor means the end (list-pages). */
  list(options?: ListOptions): Promise<ListPage>;
  /** A self-authenticating URL, or `undefined` when one that does all that was asked cannot be made (presign-overrides). */
  presign?(key: string, options: PresignOptions): Promise<PresignedUrl | undefined>;
  /**
   * Exact origins of all URLs of `presign`, such as `https://acme.s3.eu-west-1.amazonaws.com` (presign-origins). Absent if
   * the service may name another one with each URL.
   */
  presignOrigins?(options?: CallOptions): Promise<readonly string[]>;
  /** Hints that objects changed. At least once, unordered across keys, possibly coalesced (watch-burst). */
  watch?(options: WatchOptions): AsyncIterable<ChangeBatch>;
  /**
   * A writer whose object becomes visible atomically at `commit`, or never (write-invisible, write-abort). An object that
   * it replaces stays whole until then, and for good without a commit (write-overwrite, write-overwrite-abort). Nothing of
   * the object that it replaces is left, neither bytes nor etag nor type (write-overwrite-facts). Writers do not disturb
   * each other, and `remove` ends none (write-at-once, remove-write).
   */
  write?(key: string, options?: WriteOptions): Promise<ObjectWriter>;
  /**
   * Begins an object that is written in steps, by one process after the other, or resumes one. It becomes visible
   * atomically at `commit`, or never, and replaces an object as a writer does (steps-invisible, steps-abort,
   * steps-overwrite). Two objects of one key never mix; the later one may fail once the other is made (steps-two).
   * For objects that take hours to come, over connections that break: the bytes that a step kept outlast its
   * process (steps-process).
   */
  writeInSteps?(key: string, options?: StepOptions): Promise<StepWriter>;
  /**
   * Removes one object, and nothing whose key only begins with this one or is close to it (remove-below,
   * remove-near). Once it resolves the object is gone where the service is consistent (remove-gone); a missing one is
   * removed already (remove-missing). Bodies that are being read end whole or with an error (remove-read). Never
   * follows links.
   */
  remove?(key: string, options?: CallOptions): Promise<void>;
  /**
   * Bytes that can still be written, as far as the storage can tell now: a writer asks before it takes gigabytes that
   * do not fit. `undefined` if it cannot tell, as most services.
   */
  freeBytes?(options?: CallOptions): Promise<number | undefined>;
  /** Releases sockets, timers and watchers (abort-close-watch). Idempotent (abort-close). */
  close?(): Promise<void>;
}

/** A backend that writes and removes: what an upload target needs. */
export type WritableBackend = StorageBackend & Required<Pick<StorageBackend, "write" | "remove">>;

/**
 * An `open` may say where whole objects lie in memory. That belongs to the function, not to the backend: a wrapper that
 * puts another function in its place is never passed by.
 */
interface OpenOperation {
  (key: string, options?: OpenOptions): Promise<OpenedObject>;
  readonly inMemory?: FindKept;
}

/**
 * Finds in memory the result of `open` of a whole object, without waiting for anything: the same `KeptObject` while the
 * version is the same, and another `info` for another. `undefined` if only `open` can tell. Never throws.
 */
export type FindKept = (key: string) => KeptObject | undefined;

/** A whole object that lies in memory, as it is stored now. */
export interface KeptObject {
  readonly info: ObjectInfo;
  /** All of it. Shared: never write to it. */
  readonly bytes: Uint8Array;
}

/** Says that `find` gives the results of `open` from memory. */
export function withKept(
  open: StorageBackend["open"],
  find: FindKept | undefined,
): StorageBackend["open"] {
  return find ? Object.assign(open, { inMemory: find }) : open;
}

/** Options of every call. */
export interface CallOptions {
  /** Ends the call; it then rejects with `signal.reason`. */
  readonly signal?: AbortSignal;
}

/** Metadata of an object. */
export interface ObjectInfo {
  /** Canonical spelling: the stored case and Unicode form, not the caller's (describe-canonical). */
  readonly key: string;
  /** Bytes of the stored representation. Absent only if unknowable before reading. */
  readonly size?: number;
  /** Strong validator without quotes: same etag, same bytes (describe-etag-changes, describe-etag-syntax). Absent means no resume. */
  readonly etag?: string;
  /** Time of the last change: `Last-Modified`, compared with date conditions, never with `If-Range`. */
  readonly lastModified?: Date;
  /** Media type as stored; never guessed by a backend (describe-type, describe-type-not-guessed). */
  readonly contentType?: string;
  /** Stored coding, for example "gzip". Bodies are delivered as stored, never decoded (open-encoded, open-binary). */
  readonly contentEncoding?: string;
  /** Whole-object digests only: no composites, no digests of ranges (failure-digest). */
  readonly digests?: Digests;
}

/** Digests of a whole object: lower-case hex, except the CRCs and quickXor, which are base64 as their services give them. */
export interface Digests {
  readonly sha256?: string;
  readonly sha1?: string;
  readonly md5?: string;
  readonly crc32?: string;
  readonly crc32c?: string;
  readonly crc64nvme?: string;
  readonly quickXor?: string;
}

/** Options of {@link StorageBackend.open}. */
export interface OpenOptions extends CallOptions {
  /** Which bytes; the whole object when absent. Exact at every offset (range-aligned, range-every, range-large). */
  readonly range?: ByteRange;
  /**
   * Strong etag without quotes that the object must still have, character by character, else `precondition_failed`
   * (condition-stale).
   */
  readonly ifMatch?: string;
}

/**
 * An open object. Read `body` to its end or cancel it; its reader owns the chunks (open-chunks-owned). A body of
 * `createFlowBody` may also be taken as a flow, whose chunks may be lent.
 */
export interface OpenedObject extends Source {
  readonly info: ObjectInfo;
  /** The range delivered, resolved; absent for a whole object (range-clamped, open-bytes). */
  readonly range?: Required<ByteRange>;
  /**
   * Etag of the response that carries the bytes, if `info` comes from a different response. Bytes of two answers belong
   * together only if both name the same (answer-remarked).
   */
  readonly validator?: string;
}

/** Options of {@link StorageBackend.list}. */
export interface ListOptions extends CallOptions {
  /** Only keys that start with this string, which is literal text as keys are, and need not be a legal key (list-prefix-literal). */
  readonly prefix?: string;
  /**
   * From an earlier page, also one of another process. A foreign one is `invalid_argument`, also one of another prefix
   * (list-cursor-lasts, list-cursor-foreign).
   */
  readonly cursor?: string;
  /** Maximum number of objects in the page; the backend may have its own, lower bound (list-limit). */
  readonly limit?: number;
}

/** One page of {@link StorageBackend.list}. */
export interface ListPage {
  readonly objects: readonly ObjectInfo[];
  /** Opaque. Absent at the end, and only there. */
  readonly cursor?: string;
  /** The listing of the service does not tell the types that it stores: an object without one here may have one (list-types). */
  readonly untyped?: true;
  /** Entries met on the way to the end of this page that are in no list; absent if there are none, or none are counted. */
  readonly unlisted?: UnlistedCounts;
}

/** Options of {@link StorageBackend.presign}. */
export interface PresignOptions extends CallOptions {
  /** Longest life of the URL in milliseconds; that of the signing credentials may be shorter. */
  readonly expiresInMs: number;
  /** `Content-Type` of the response, in place of the stored type. */
  readonly contentType?: string;
  /** `Content-Disposition` of the response. */
  readonly contentDisposition?: string;
}

/** A URL that carries its own permission. */
export interface PresignedUrl {
  /** Opaque: never re-serialise it, never log it. */
  readonly url: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** Options of {@link StorageBackend.watch}. */
export interface WatchOptions {
  /** Only changes of keys that start with this string. */
  readonly prefix?: string;
  /** From an earlier batch: continues after it, or begins with `reset`. */
  readonly cursor?: string;
  /** Ends the iteration normally (watch-abort). */
  readonly signal: AbortSignal;
}

/** The first batch is empty and means "armed" (watch-armed). `reset`: events may be lost, list again. */
export interface ChangeBatch {
  readonly changed?: readonly string[];
  readonly removed?: readonly string[];
  readonly reset?: true;
  readonly cursor?: string;
}

/** Sends one request, and again while it fails with a `retryable` error, as far as the sender allows. `signal` ends a pause. */
export type Repeat = <T>(send: () => Promise<T>, signal?: AbortSignal) => Promise<T>;

/** Options of {@link StorageBackend.write}. */
export interface WriteOptions extends CallOptions {
  /** Bytes that will be written; another count at `commit` is `invalid_argument` (write-size). */
  readonly size?: number;
  /** Media type to store with the object, with its parameters, for `ObjectInfo.contentType`; a store without types ignores it (write-type). */
  readonly contentType?: string;
  /** Replace only this version, else `precondition_failed` (write-if-match, write-race-match, write-condition-exact). */
  readonly ifMatch?: string;
  /** Create only, else `precondition_failed`: an empty object is one, too (write-if-absent, write-race, write-condition-exact). */
  readonly ifAbsent?: boolean;
  /**
   * Other users of the machine may not read the object: in a folder the file has mode 0600, and folders that are made
   * for it 0700. A service that lets none but its credentials read has nothing to do. Default: false.
   */
  readonly private?: boolean;
  /**
   * How the requests of the writer are sent, each of which the backend can send again: a part that is lost need not end a
   * write (repeat-fault, repeat-lost). The wrapper `retry` gives its own. Default: once.
   */
  readonly repeat?: Repeat;
}

/**
 * Writes one object, of chunks of any size, including none (write-sizes). Writing or committing
 * after `commit` is a `TypeError` (write-finished).
 */
export interface ObjectWriter extends Sink<ObjectInfo> {}

/** Options of {@link StorageBackend.writeInSteps}. */
export interface StepOptions extends CallOptions {
  /**
   * Resumes an object of this key: the `id` of an earlier writer, even one of another process. An
   * invalid id is `invalid_argument`; of an object that was committed or aborted it is `not_found`,
   * or finds nothing kept if the service cannot tell (steps-id, steps-finished).
   */
  readonly id?: string;
  /** See {@link WriteOptions.contentType}. Only with the first step (steps-type). */
  readonly contentType?: string;
  /** See {@link WriteOptions.private}. Only with the first step. */
  readonly private?: boolean;
  /** See {@link WriteOptions.repeat}. */
  readonly repeat?: Repeat;
}

/** How far an object is after a step. */
export interface StepEnd {
  /** Bytes that are kept for good: the next step begins there, in any process (steps-offset). */
  readonly offset: number;
  /**
   * Bytes that came after them and that the service cannot keep yet, since they are less than one of its parts. The
   * caller keeps them and writes them first in the next step. At most 8 MiB for objects up to 8 GiB.
   */
  readonly rest: Uint8Array;
}

/**
 * Writes one step of an object. A step that never ends, because its process did, leaves what was kept of it. Of two
 * writers at the same place one fails at the latest at `commit`, with `precondition_failed` or `not_found`, and what
 * appears is that of one of them (steps-race, steps-late). A writer that opens and writes nothing changes nothing for
 * another one that is at work (steps-look).
 */
export interface StepWriter {
  /** Opaque, at most 1 KiB of visible ASCII, good in every process. */
  readonly id: string;
  /** Bytes that were kept when this step began: it begins at the next byte. */
  readonly offset: number;
  /** Takes the next chunk of any size, which is the writer's from then on (steps-sizes). A failure ends the step and leaves what is kept. */
  write(chunk: Uint8Array): Promise<void>;
  /** Ends the step and keeps its bytes. Writing after that is a `TypeError` (steps-ended). */
  suspend(): Promise<StepEnd>;
  /** Makes the object of all steps. Ends the step, even when it fails. */
  commit(): Promise<ObjectInfo>;
  /** Removes all that is kept (steps-abort). May be repeated; changes nothing after `suspend` or `commit`. */
  abort(): Promise<void>;
}

/** The operations of a backend: everything but its name. */
export type BackendOperation = Exclude<keyof StorageBackend, "name">;

/** Every operation once; the type makes a forgotten one a compile error. */
export const backendOperations: Readonly<Record<BackendOperation, true>> = {
  describe: true,
  open: true,
  list: true,
  presign: true,
  presignOrigins: true,
  watch: true,
  write: true,
  writeInSteps: true,
  remove: true,
  freeBytes: true,
  close: true,
};
