import { SluiceError, type ByteFlow } from "@sluice/core";
import {
  definedMembers,
  fileNameFromUri,
  type KeptBytes,
  localFileName,
  type Sha256,
} from "@sluice/core/internal";
import type { RequestingClient } from "../calls/stream-calls.ts";
import type { HopExchange } from "../net/exchange.ts";
import { streamOf } from "../net/flow-stream.ts";
import { createLoader, loadSha256 } from "../net/load-code.ts";
import type { CheckedAnswer } from "./check-answer.ts";
import type { DownloadGrant } from "./download-grant.ts";
import { grantsOf, type GrantProvider } from "./grant-provider.ts";
import { createResumableDownload, type ResumableDownload } from "./resumable-download.ts";
import {
  ensureSize,
  type StreamFacts,
  type StreamSettings,
  type TransferCount,
} from "./stream-options.ts";

/** A resource that was asked for, with the first response waiting. */
export interface OpenedResource {
  readonly facts: StreamFacts;
  readonly download: ResumableDownload;
  readonly grants: GrantProvider;
  readonly settings: StreamSettings;
  /**
   * Waits for consent, if the settings require it. `to` is where the bytes will go, as the caller named it; without it they go to
   * the caller, 1 GiB at most if the settings name no bound.
   */
  readonly admit: (to?: string) => Promise<void>;
  /** Ends everything that belongs to the resource. */
  readonly cancel: (reason: unknown) => void;
}

/** Asks for a resource, or for what follows the kept bytes of it, and waits for the first response. */
export async function openResource(
  client: RequestingClient,
  uri: string,
  wanted: StreamSettings,
  fallback: HopExchange,
  kept?: KeptBytes,
): Promise<OpenedResource> {
  const stop = new AbortController();
  const signal = AbortSignal.any([wanted.signal, stop.signal]);
  const settings: { -readonly [K in keyof StreamSettings]: StreamSettings[K] } = {
    ...wanted,
    signal,
  };
  const grants = grantsOf(client, uri, settings, fallback);
  const download = createResumableDownload(uri, grants, settings, kept);
  try {
    const answer = await download.open();
    const facts = factsOf(uri, await grants.grant(), answer);
    const cancel = (reason: unknown): void => stop.abort(reason);
    const admit = async (to?: string): Promise<void> => {
      try {
        if (to === undefined) settings.maxStreamBytes ??= 2 ** 30;
        ensureSize(uri, facts.size, settings.maxStreamBytes);
        const { consent } = settings;
        if (!consent) return;
        const { ensureConsent, scaleOf } = await loadConsent();
        await ensureConsent(consent, scaleOf([facts], to), signal);
        // a larger version would be another question
        if (facts.size !== undefined) settings.maxStreamBytes = facts.size;
      } catch (error) {
        download.cancel();
        throw error;
      }
    };
    return { facts, download, grants, settings, admit, cancel };
  } catch (error) {
    download.cancel();
    throw error;
  }
}

const loadConsent = createLoader(() => import("./ask-consent.ts"), "the question for consent");

function factsOf(uri: string, grant: DownloadGrant, answer: CheckedAnswer): StreamFacts {
  const { size, etag, sha256, contentEncoding, fileNames, named } = answer;
  // downloads are often labelled octet-stream for safety; the JSON has the real type then
  const mimeType = grant.mimeType ?? answer.mimeType ?? "application/octet-stream";
  const origin = answer.origin ?? grant.credentials?.endpoint.origin;
  return definedMembers({
    uri,
    mode: grant.mode,
    mimeType,
    name: localFileName(grant.name, ...fileNames, fileNameFromUri(uri)),
    vouched: named || grant.size !== undefined || grant.sha256 !== undefined,
    size,
    etag: etag?.slice(1, -1),
    sha256,
    contentEncoding,
    origin,
    ttlMs: grant.ttlMs,
  });
}

/** The bytes of an opened resource as a web stream that ends cleanly only when they are right. */
export function bodyOf({
  facts,
  download,
  settings,
  admit,
  cancel,
}: OpenedResource): ReadableStream<Uint8Array> {
  const flow: ByteFlow = {
    async pump(write, lending) {
      await admit();
      const { onProgress } = settings;
      const { size, sha256: digest, uri } = facts;
      const hash = digest === undefined ? undefined : await hashFor(download);
      await download.receive({
        lending,
        write(chunk, at, release) {
          hash?.update(chunk);
          onProgress?.(countOf(at + chunk.length, size));
          return write(chunk, release);
        },
      });
      ensureDigest(uri, digest, hash?.digest());
    },
    cancel,
  };
  return streamOf(flow);
}

async function hashFor(download: ResumableDownload): Promise<Sha256> {
  try {
    const { createSha256 } = await loadSha256();
    return createSha256();
  } catch (error) {
    download.cancel();
    throw error;
  }
}

/** A progress report. */
export function countOf(bytes: number, totalBytes: number | undefined): TransferCount {
  return definedMembers({ bytes, totalBytes });
}

/** Throws `corrupt` when a promised digest is not the one that came out. */
export function ensureDigest(uri: string, promised: string | undefined, found?: string): void {
  if (promised !== undefined && promised !== found)
    throw new SluiceError(
      "corrupt",
      `client: ${JSON.stringify(uri)} did not arrive as it was sent: its SHA-256 is wrong; fetch it again`,
    );
}
