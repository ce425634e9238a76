import type { ByteFlow } from "@sluice/core";
import type { HopScope } from "../trust/classify-address.ts";
import type { OutgoingBody } from "./outgoing-body.ts";

/**
 * Sends one HTTP request and gives its response, whatever the status. It follows nothing, keeps no cookies, caches
 * nothing and retries nothing that the server may have received. Rejects with `unavailable` when the request did not
 * arrive, `interrupted` when it may have and has an {@link OutgoingBody}, `untrusted`, `protocol`, `unsupported` for a
 * redirect that the platform hides, with what reading the body threw, or with `signal.reason`.
 */
export type HopExchange = (request: HopRequest) => Promise<HopAnswer>;

/** One request of one hop. */
export interface HopRequest {
  readonly method: "GET" | "HEAD" | "POST" | "PUT" | "PATCH" | "DELETE";
  readonly url: URL;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | OutgoingBody | undefined;
  /** Ends the exchange, also while its body is read. */
  readonly signal: AbortSignal;
  /** Which addresses to connect to, for an exchange that can tell. */
  readonly scope: HopScope;
  readonly connectMs: number;
  /** Receives progress of the request, if the platform tells. */
  readonly progress?: SendProgress | undefined;
}

interface SendProgress {
  connected(): void;
  /** Bytes of an {@link OutgoingBody} went out. */
  handed(bytes: number): void;
  sent(): void;
}

/** Status, headers and the bytes still to come. */
export interface HopAnswer {
  readonly status: number;
  readonly headers: Headers;
  /** False when the response came before all of an {@link OutgoingBody} went out. */
  readonly sentAll: boolean;
  /** What tells where the body ends; `unknown` if the platform hides it. */
  readonly framing: "length" | "chunked" | "close" | "unknown";
  /** The platform undoes content codings before the client sees the bytes. */
  readonly decodes?: true;
  /** The peer's address, if the platform tells. */
  readonly address?: string | undefined;
  readonly body: ByteFlow;
}

/** Where the chunks of an object go. */
export interface ChunkSink {
  /** Writes a chunk that begins at an offset of the object, under the terms of `WriteChunk` of core. */
  write(chunk: Uint8Array, at: number, release?: () => void): Promise<void> | void;
}
