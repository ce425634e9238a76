import type { AddressScope } from "../trust/address-scope.ts";
import type { Lending, WriteChunk } from "./chunk-sink.ts";

/**
 * Sends one HTTP request and gives its answer, whatever the status. It follows nothing, keeps no
 * cookies, caches nothing and retries nothing. Rejects with `unavailable`,
 * `timeout` or `untrusted`, or with `signal.reason`.
 */
export type Exchange = (request: HopRequest) => Promise<HopAnswer>;

/** One request of one hop. */
export interface HopRequest {
  readonly method: "GET" | "POST";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string;
  /** Ends the exchange, also while its body is read. */
  readonly signal: AbortSignal;
  /** `public`: connect to addresses of the public internet only. */
  readonly scope: AddressScope;
  /** Milliseconds to connect in. */
  readonly connectMs: number;
}

/** Status, headers and the bytes still to come. */
export interface HopAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** What tells where the body ends; `unknown` where the platform hides it. */
  readonly framing: "length" | "chunked" | "close" | "unknown";
  /** The platform undoes content codings before the client sees the bytes. */
  readonly decodes?: true;
  /** Where the connection led, where the platform tells: the peer's address. */
  readonly address?: string;
  readonly body: ByteFlow;
}

/** The bytes of one answer. Pumped to the end or cancelled, and either only once. */
export interface ByteFlow {
  /**
   * Gives every chunk to `write`, one after the other, and waits where it returns a promise.
   * Resolves after the last byte; rejects with `interrupted` when the connection broke, and with
   * what `write` threw. With `lending`, a flow that can reads into as much memory and no more.
   */
  pump(write: WriteChunk, lending?: Lending): Promise<void>;
  /** Gives up the connection. Idempotent, and a no-op after the end. */
  cancel(reason?: unknown): void;
}
