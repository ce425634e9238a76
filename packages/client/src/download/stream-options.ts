import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/wire";
import { ensureTrustedOrigins } from "../trust/accept-url.ts";
import type { Consent } from "../trust/consent.ts";

/** Options of {@link streamResource}. */
export interface StreamOptions {
  /** Ends the transfer, also long after the call returned. */
  readonly signal?: AbortSignal;
  /** Most bytes to accept; 1 GiB when absent. Declared to the server and enforced here. */
  readonly maxStreamSize?: number;
  /** Answers you would rather have, best first; the server decides. */
  readonly prefer?: readonly DeliveryMode[];
  /**
   * Origins beside the MCP server's own that bytes may come from: `https://cdn.example.com`, or
   * with one open label `https://*.blob.core.windows.net`. They never see credentials. Anything
   * else, such as a host without a scheme or an origin with a path, is `invalid_argument`.
   */
  readonly trustedOrigins?: readonly string[];
  /**
   * `any-public-https` also follows redirects to every HTTPS origin at a public address. Default: `trusted`. At most
   * two redirects follow each other on the way from a URL to its bytes; a third is `protocol`.
   */
  readonly redirects?: "trusted" | "any-public-https";
  /** Refuse a resource without a SHA-256 to check the bytes against. */
  readonly requireDigest?: boolean;
  /**
   * Asked before the first byte is read or saved, with the scale of what will happen. Anything but true
   * ends the transfer as `permission_denied`. A version that is larger than what was agreed to is `too_large`.
   */
  readonly consent?: Consent;
  /** Called with the running count at most once a chunk. It must not throw. */
  readonly onProgress?: (progress: TransferCount) => void;
  /** Deadlines other than the defaults of {@link TransferTimeouts}. */
  readonly timeouts?: Partial<TransferTimeouts>;
}

/** How far a transfer is. */
export interface TransferCount {
  readonly receivedBytes: number;
  /** Absent while the size is unknown. */
  readonly totalBytes?: number;
}

/** How long to wait for what, in milliseconds. The time in which nobody reads does not count. */
export interface TransferTimeouts {
  /** For a connection; 10 s. */
  readonly connectMs: number;
  /** For the headers of an answer, and for all of one that is a JSON-RPC message; 30 s. */
  readonly headersMs: number;
  /** Without a byte until the connection is given up and another one tried; 30 s. */
  readonly idleMs: number;
  /** Least bytes per second, averaged over `rateWindowMs`; 1,024. Slower is a `timeout`. */
  readonly minBytesPerSecond: number;
  /** 30 s. */
  readonly rateWindowMs: number;
  /**
   * For the whole transfer. Default 60 s and 1 s for every 64 KiB, at most 6 h. The pauses between
   * tries have as much again, by default 5 min at least; a server that still says no after them
   * ends the transfer as `throttled`, `unavailable` or `interrupted`.
   */
  readonly totalMs?: number;
  /** Shortens or lengthens the pauses between tries; 1. */
  readonly pauseScale: number;
}

/** Options with every default filled in. */
export interface StreamSettings {
  readonly signal: AbortSignal;
  readonly maxStreamSize: number;
  readonly prefer?: readonly DeliveryMode[];
  readonly trustedOrigins: readonly string[];
  readonly redirects: "trusted" | "any-public-https";
  readonly requireDigest: boolean;
  readonly consent?: Consent;
  readonly onProgress?: (progress: TransferCount) => void;
  readonly timeouts: TransferTimeouts;
}

/** Fills in the defaults. Throws `invalid_argument` for a trusted origin that is none. */
export function settingsOf(options: StreamOptions): StreamSettings {
  ensureTrustedOrigins(options.trustedOrigins ?? []);
  const { signal = new AbortController().signal, maxStreamSize = 2 ** 30, timeouts } = options;
  return {
    trustedOrigins: [],
    redirects: "trusted",
    requireDigest: false,
    ...options,
    signal,
    maxStreamSize,
    timeouts: {
      connectMs: 10_000,
      headersMs: 30_000,
      idleMs: 30_000,
      minBytesPerSecond: 1_024,
      rateWindowMs: 30_000,
      pauseScale: 1,
      ...timeouts,
    },
  };
}

/** How long a transfer of `size` bytes may take. */
export function totalMsOf(timeouts: TransferTimeouts, size: number | undefined): number {
  const most = 6 * 3_600_000;
  const fair = size === undefined ? most : Math.min(60_000 + (size / 65_536) * 1_000, most);
  return timeouts.totalMs ?? fair;
}

/** How long all pauses between tries may take together: as long as the bytes, without `totalMs` 5 min at least. */
export function pausesMsOf(timeouts: TransferTimeouts, size: number | undefined): number {
  return timeouts.totalMs ?? Math.max(300_000, totalMsOf(timeouts, size));
}

/** Throws `too_large` when `size` is over the limit. */
export function ensureSize(uri: string, size: number | undefined, maxStreamSize: number): void {
  if (size !== undefined && size > maxStreamSize)
    throw new SluiceError(
      "too_large",
      `client: ${JSON.stringify(uri)} has ${size} bytes, more than maxStreamSize ${maxStreamSize}; raise it to accept them`,
      { size },
    );
}

/** Throws `unsupported` for bytes without a digest where one is required. */
export function ensurePromised(
  uri: string,
  digest: string | undefined,
  { requireDigest }: StreamSettings,
): void {
  if (requireDigest && digest === undefined)
    throw new SluiceError(
      "unsupported",
      `client: ${JSON.stringify(uri)} comes without a SHA-256; drop requireDigest to take it anyway`,
    );
}
