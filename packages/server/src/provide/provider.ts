import { SluiceError, type Principal } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";

/** What a provider is asked for. */
export interface ProvideRequest {
  /** Canonical URI of the resource. */
  readonly uri: string;
  /**
   * Values of the template's variables, percent-decoded; none if the provider is for one URI. No value begins or ends
   * with `/` or has an empty, `.` or `..` segment.
   */
  readonly variables: Readonly<Record<string, string>>;
  /** The caller with its verified claims; `undefined` for the anonymous. */
  readonly principal: Principal | undefined;
  /** Aborts when the client goes away, at a limit, and when the transfer is over. Give it to everything that waits. */
  readonly signal: AbortSignal;
}

/**
 * What a provider gives: the bytes in one of these forms, or where they are.
 *
 * - Text is sent as UTF-8. A lone surrogate is a `TypeError`: it would change in silence.
 * - `AsyncIterable`: a generator, or a Node `Readable` such as a file or the `body` of undici's `request`, whose status
 *   the provider checks itself. A generator is ended with `return()`, which runs its `finally` once it yields or
 *   throws: what it waits for has to end with `signal`.
 * - {@link ProvidedResponse}: of `fetch` or undici, whatever its status is.
 * - {@link ProvidedProcess}: of `spawn`; its exit code decides whether the bytes are complete.
 *
 * Chunks of generators and of `ReadableStream`s are copied, so that their memory may be used again. Node streams,
 * responses and processes hand their chunks over. Each call gives a new stream: one that was given before is a `TypeError`.
 * To end early is to throw: a clean end means that all bytes came.
 */
export type Provided =
  | Uint8Array
  | string
  | ReadableStream<Uint8Array | string>
  | AsyncIterable<Uint8Array | string>
  | ProvidedResponse
  | ProvidedProcess
  | ProvidedUrl;

/**
 * A response of another HTTP server, as `fetch` gives it. Redirects are followed by `fetch`; every status but 2xx is an
 * error. A response without `Content-Length` and `Transfer-Encoding` is refused where `describe` tells no size: a
 * connection that breaks would look like its end.
 */
export interface ProvidedResponse {
  readonly status: number;
  readonly ok: boolean;
  /** Empty if the response is not from the network. */
  readonly url: string;
  readonly headers: { get(name: string): string | null };
  readonly body: ReadableStream<Uint8Array> | null;
}

/**
 * A child process, as `spawn` of `node:child_process` gives it. Its stdout is the bytes. An exit code other than 0 and a
 * signal are errors. Give it at once: Node drops the bytes of a process that ends without a reader. `exec` and `execFile` do not fit: they make text of the bytes, and end at 1 MiB.
 */
export interface ProvidedProcess {
  readonly stdout: ProvidedPipe | null;
  /** Read and dropped but for its last 4,096 characters, which become the cause of an error. */
  readonly stderr: ProvidedPipe | null;
  readonly exitCode: number | null;
  readonly signalCode: string | null;
  kill(signal: "SIGTERM" | "SIGKILL"): boolean;
  on(event: string, listener: (...args: never[]) => void): unknown;
  once(event: string, listener: (...args: never[]) => void): unknown;
}

/** A Node `Readable`. */
export interface ProvidedPipe extends AsyncIterable<Uint8Array> {
  readonly readableEncoding?: string | null;
  readonly readableFlowing?: boolean | null;
  readonly readableDidRead?: boolean;
  on(event: string, listener: (...args: never[]) => void): unknown;
  destroy(): unknown;
}

/** A URL from which the client gets the bytes itself, such as a presigned one. */
export interface ProvidedUrl {
  /** Absolute, `https:` or `http:`. It carries its own permission and is never logged. */
  readonly url: string;
  /** Unix milliseconds, in the future: a URL that has expired is an error. */
  readonly expiresAt: number;
}

/** What is known of a resource before its bytes are made. */
export interface ProvidedInfo {
  /** In bytes. Any other number of bytes is an error: fewer `interrupted`, more `corrupt`. */
  readonly size?: number | undefined;
  readonly mimeType?: string | undefined;
  /** Any text that changes whenever the bytes do. */
  readonly version?: string | undefined;
  readonly lastModified?: Date | undefined;
  /** SHA-256 of all bytes, in hex. */
  readonly sha256?: string | undefined;
}

/** Makes a resource, or the resources of a template, when they are asked for. */
export interface Provider {
  /**
   * Gives the bytes. Throws a `SluiceError` for what a client may learn, such as `not_found`; any other error is
   * `internal` to it.
   */
  readonly open: (request: ProvideRequest) => Provided | Promise<Provided>;
  /**
   * Tells what is known before the bytes are made; asked before each transfer, and with {@link rewind} after its last
   * byte again. Throws as `open` does.
   */
  readonly describe?: (request: ProvideRequest) => ProvidedInfo | Promise<ProvidedInfo>;
  /**
   * `true`: for one version `open` gives the same bytes each time, and a later part is made from the start again, without
   * what lies before it. A function begins at the byte `start` instead (a `Response` may also begin at 0). Needs
   * `describe` with size and version, which become the etag. Default: no ranges, no resume, no etag.
   *
   * A version that is another one after the last byte is `precondition_failed`, and the last chunk is held back until
   * that is known: a mixed version is never taken for a whole.
   */
  readonly rewind?:
    | true
    | ((request: ProvideRequest & { readonly start: number }) => Provided | Promise<Provided>);
  /** What lists say. They ask no provider. */
  readonly title?: string;
  readonly description?: string;
  /** Media type of the resources, where `describe` tells no other. */
  readonly mimeType?: string;
  /** Maximum bytes of one response; more are `too_large`, even in the middle. Default: no limit. */
  readonly maxBytes?: number;
  /** Longest wait for `describe`, `open` or the next chunk, in milliseconds; then `timeout`. Default: 30 s. */
  readonly idleMs?: number;
}

/**
 * The bytes are at a URL: what `open` rejects with if a provider gives one. The URL is in no message, and not shown
 * where an error is logged with its members.
 */
export class RedirectError extends SluiceError {
  readonly #to: ProvidedUrl;
  readonly #info: ObjectInfo;

  constructor(operation: string, to: ProvidedUrl, info: ObjectInfo) {
    super("unsupported", `${operation}: the bytes are at a URL; send the client there`);
    this.#to = to;
    this.#info = info;
  }

  /** What was described of the resource. */
  get info(): ObjectInfo {
    return this.#info;
  }

  get url(): string {
    return this.#to.url;
  }

  get expiresAt(): number {
    return this.#to.expiresAt;
  }
}

/** A provider with its settings checked; a function is its `open`. Throws a `TypeError` or `RangeError` that says what to give. */
export function toProvider(uriOrTemplate: string, given: Provider | Provider["open"]): Provider {
  const provider = typeof given === "function" ? { open: given } : given;
  const what = `sluice.provide: ${JSON.stringify(uriOrTemplate)}`;
  const { open, describe, rewind, maxBytes, idleMs } = provider;
  if (typeof open !== "function")
    throw new TypeError(`${what}: give a function that opens the resource, or { open }`);
  if (describe !== undefined && typeof describe !== "function")
    throw new TypeError(`${what}: describe must be a function`);
  if (rewind !== undefined && rewind !== true && typeof rewind !== "function")
    throw new TypeError(`${what}: rewind must be true or a function`);
  if (rewind !== undefined && describe === undefined)
    throw new TypeError(`${what}: rewind needs describe, which tells size and version`);
  if (maxBytes !== undefined && !(Number.isSafeInteger(maxBytes) && maxBytes > 0))
    throw new RangeError(`${what}: maxBytes must be a whole number from 1; it is ${maxBytes}`);
  if (idleMs !== undefined && !(idleMs > 0))
    throw new RangeError(`${what}: idleMs must be more than 0 milliseconds; it is ${idleMs}`);
  return provider;
}
