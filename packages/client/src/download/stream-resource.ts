import { createSha256, fileNameFromUri, localFileName, SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/wire";
import type { CheckedAnswer } from "./check-answer.ts";
import { ensureConsent, scaleOf } from "../trust/consent.ts";
import type { ByteFlow, Exchange } from "../net/exchange.ts";
import { createFetchExchange } from "../net/fetch-exchange.ts";
import { streamOf } from "../net/flow-stream.ts";
import type { Permit, StreamingClient } from "./permit.ts";
import { createReceiver, type Receiver } from "./receiver.ts";
import {
  createCache,
  type ResourceCache,
  type ResourceCacheOptions,
} from "../cache/resource-cache.ts";
import { settingsOf, type StreamOptions, type StreamSettings } from "./stream-options.ts";
import { createSupply, type Supply } from "./supply.ts";

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
  /** Origin that the bytes come from; absent where nobody knows the MCP server's own. */
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

/**
 * Asks an MCP server for the bytes of a resource (SEP-2532 §3) through an SDK client, version 1 or
 * 2, whose transport has the {@link withStreaming} fetch.
 *
 * Rejects with `not_found`, `unsupported`, `too_large`, `permission_denied`, `unauthenticated`,
 * `throttled`, `untrusted`, `protocol`, `unavailable`, `timeout`, or with `signal.reason`.
 */
export async function streamResource(
  client: StreamingClient,
  uri: string,
  options: StreamOptions = {},
): Promise<ResourceStream> {
  // where redirects are hidden and answers read by others, a download URL is what works
  const settings = settingsOf({ ...(isBrowser() && { prefer: ["downloadUrl"] }), ...options });
  const opened = await openResource(client, uri, settings, createFetchExchange(globalThis.fetch));
  return { ...opened.facts, body: bodyOf(opened) };
}

/**
 * A cache of small resources and of facts about all of them, over `streamResource` and a client: what it
 * keeps belongs to that client's principal alone.
 */
export function createResourceCache(
  client: StreamingClient,
  options: ResourceCacheOptions = {},
): ResourceCache {
  return createCache((uri, streamOptions) => streamResource(client, uri, streamOptions), options);
}

function isBrowser(): boolean {
  return "document" in globalThis || "WorkerGlobalScope" in globalThis;
}

/** A resource that was asked for, with the first answer waiting. */
export interface OpenedResource {
  readonly facts: StreamFacts;
  readonly receiver: Receiver;
  readonly supply: Supply;
  readonly settings: StreamSettings;
  /** Asks whoever must consent, where somebody must. `to` is where the bytes will go, as the caller named it. */
  readonly agree: (to?: string) => Promise<void>;
  /** Ends everything that belongs to the resource. */
  readonly cancel: (reason: unknown) => void;
}

/** Asks for a resource and waits for its first answer. */
export async function openResource(
  client: StreamingClient,
  uri: string,
  wanted: StreamSettings,
  fallback: Exchange,
): Promise<OpenedResource> {
  const stop = new AbortController();
  const signal = AbortSignal.any([wanted.signal, stop.signal]);
  const settings: { -readonly [K in keyof StreamSettings]: StreamSettings[K] } = {
    ...wanted,
    signal,
  };
  const supply = createSupply(client, uri, settings, fallback);
  const receiver = createReceiver(uri, supply, settings);
  try {
    const answer = await receiver.open();
    const facts = factsOf(uri, await supply.permit(), answer);
    const cancel = (reason: unknown): void => stop.abort(reason);
    const agree = async (to?: string): Promise<void> => {
      const { consent } = settings;
      if (!consent) return;
      try {
        await ensureConsent(consent, scaleOf([facts], to), signal);
      } catch (error) {
        receiver.cancel();
        throw error;
      }
      // a larger version would be another question
      if (facts.size !== undefined) settings.maxStreamSize = facts.size;
    };
    return { facts, receiver, supply, settings, agree, cancel };
  } catch (error) {
    receiver.cancel();
    throw error;
  }
}

function factsOf(uri: string, permit: Permit, answer: CheckedAnswer): StreamFacts {
  const { size, etag, digest, contentEncoding, fileNames, named } = answer;
  // downloads are often labelled octet-stream for safety; the JSON has the real type then
  const mimeType = permit.mimeType ?? answer.mimeType ?? "application/octet-stream";
  const origin = answer.origin ?? permit.credentials?.endpoint.origin;
  return {
    uri,
    mode: permit.mode,
    mimeType,
    name: localFileName(permit.name, ...fileNames, fileNameFromUri(uri)),
    vouched: named || permit.size !== undefined || permit.digest !== undefined,
    ...(size !== undefined && { size }),
    ...(etag !== undefined && { etag }),
    ...(digest !== undefined && { digest }),
    ...(contentEncoding !== undefined && { contentEncoding }),
    ...(origin !== undefined && { origin }),
    ...(permit.ttlMs !== undefined && { ttlMs: permit.ttlMs }),
  };
}

/** The bytes of an opened resource as a web stream that ends cleanly only when they are right. */
export function bodyOf({
  facts,
  receiver,
  settings,
  agree,
  cancel,
}: OpenedResource): ReadableStream<Uint8Array> {
  const flow: ByteFlow = {
    async pump(take, lending) {
      await agree();
      const { onProgress } = settings;
      const { size, digest, uri } = facts;
      const hash = digest === undefined ? undefined : createSha256();
      await receiver.receive({
        ...(lending && { lending }),
        write(chunk, at, release) {
          ensureSame(facts, receiver.latest());
          hash?.update(chunk);
          onProgress?.(countOf(at + chunk.length, size));
          return take(chunk, release);
        },
      });
      ensureDigest(uri, digest, hash?.digest());
    },
    cancel,
  };
  return streamOf(flow);
}

/** Throws when the object changed between the facts that were given out and the first byte. */
function ensureSame(facts: StreamFacts, answer: CheckedAnswer | undefined): void {
  if (answer?.etag === facts.etag && answer?.size === facts.size) return;
  throw new SluiceError(
    "precondition_failed",
    `client: ${JSON.stringify(facts.uri)} changed while it was waited for; start again`,
  );
}

/** A progress report. */
export function countOf(
  receivedBytes: number,
  totalBytes: number | undefined,
): { readonly receivedBytes: number; readonly totalBytes?: number } {
  return totalBytes === undefined ? { receivedBytes } : { receivedBytes, totalBytes };
}

/** Throws `corrupt` when a promised digest is not the one that came out. */
export function ensureDigest(uri: string, promised: string | undefined, found?: string): void {
  if (promised !== undefined && promised !== found)
    throw new SluiceError(
      "corrupt",
      `client: ${JSON.stringify(uri)} did not arrive as it was sent: its SHA-256 is wrong; fetch it again`,
    );
}
