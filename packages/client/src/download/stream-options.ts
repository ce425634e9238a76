import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/internal";
import { ensureTrustedOrigins } from "../trust/accept-url.ts";
import { fairMsOf, peerTimeouts, type PeerTimeouts } from "../net/timeouts.ts";

/** Facts of a resource, known before its first byte is read. */
export interface StreamFacts {
  readonly uri: string;
  /** How the server delivers the bytes. */
  readonly mode: DeliveryMode;
  /** As the server declares; default: `application/octet-stream`. */
  readonly mimeType: string;
  /** Bytes; absent when the server does not know before it has sent them. */
  readonly size?: number;
  /** A name for a file: one safe path component, made of the server's suggestion. Untrusted as a label. */
  readonly name: string;
  /**
   * Content coding, such as `gzip`, that the storage keeps the bytes in. They are given and saved as
   * they are stored; size, digest and ranges are those of the coded bytes.
   */
  readonly contentEncoding?: string;
  /** Strong validator, without the quotes of the header. Without one, a broken transfer cannot resume. */
  readonly etag?: string;
  /** SHA-256 in hex that the bytes will be checked against. */
  readonly sha256?: string;
  /** Milliseconds for which these facts and the content are fresh, if the server says so. */
  readonly ttlMs?: number;
  /** Origin that the bytes come from; absent if the MCP server's own is unknown. */
  readonly origin?: string;
  /**
   * False when nothing ties the bytes to this resource: they come from another origin, and the MCP
   * server gave neither their length nor a digest.
   */
  readonly vouched: boolean;
}

/** Options of {@link streamResource}. */
export interface StreamOptions {
  /** Ends the transfer, even long after the call returned. */
  readonly signal?: AbortSignal;
  /**
   * Maximum bytes to accept, declared to the server and enforced here. Default: 1 GiB for `body`, and none for a file, which
   * needs room on its disk.
   */
  readonly maxStreamBytes?: number;
  /** Preferred answers, best first; the server decides. */
  readonly prefer?: readonly DeliveryMode[];
  /**
   * Origins besides the MCP server's own that bytes may come from: `https://cdn.example.com`, or with one open label
   * `https://*.blob.core.windows.net`. They never see credentials. Anything else, such as a host without a scheme or an
   * origin with a path, is `invalid_argument`. `public-https` among them follows redirects of the server to every HTTPS origin at
   * a public address. At most two redirects follow each other on the way from a URL to its bytes; a third is `protocol`.
   */
  readonly trustedOrigins?: readonly string[];
  /** Refuse a resource without a SHA-256 to check the bytes against. */
  readonly requireDigest?: boolean;
  /**
   * Asked before the first byte is read or saved, with the scale of the transfer. Anything but true ends the transfer
   * as `permission_denied`. A version that is larger than agreed to is `too_large`.
   */
  readonly consent?: Consent;
  /** Called with the running count at most once a chunk. It must not throw. */
  readonly onProgress?: (progress: TransferCount) => void;
  /** Deadlines other than the defaults of {@link TransferTimeouts}. */
  readonly timeouts?: Partial<TransferTimeouts>;
}

/** How far a transfer is. */
export interface TransferCount {
  /** Bytes that arrived, of an earlier run too. */
  readonly bytes: number;
  /** Absent while the size is unknown. */
  readonly totalBytes?: number;
}

/** Options that may stay absent. */
type OpenOption = "prefer" | "consent" | "onProgress" | "maxStreamBytes";

/** Options with every default filled in. */
export interface StreamSettings
  extends Pick<StreamOptions, OpenOption>, Required<Omit<StreamOptions, OpenOption | "timeouts">> {
  readonly timeouts: TransferTimeouts;
}

/** Fills in the defaults. Throws `invalid_argument` for an invalid trusted origin. */
export function settingsOf(options: StreamOptions): StreamSettings {
  const { trustedOrigins = [] } = options;
  ensureTrustedOrigins(trustedOrigins);
  // in Workers neither a module nor another request may make it
  const { signal = new AbortController().signal, timeouts } = options;
  return {
    requireDigest: false,
    ...options,
    trustedOrigins,
    signal,
    timeouts: { ...transferTimeouts, ...timeouts },
  };
}

/** Throws `too_large` when `size` is over the limit, if there is one. */
export function ensureSize(uri: string, size = 0, maxStreamBytes: number = Infinity): void {
  if (size > maxStreamBytes)
    throw new SluiceError(
      "too_large",
      `client: ${JSON.stringify(uri)} has ${size} bytes; raise maxStreamBytes from ${maxStreamBytes}`,
      { size },
    );
}

/** Throws `unsupported` for bytes without a required digest. */
export function ensurePromised(
  uri: string,
  digest: string | undefined,
  { requireDigest }: StreamSettings,
): void {
  if (requireDigest && digest === undefined)
    throw new SluiceError(
      "unsupported",
      `client: ${JSON.stringify(uri)} comes without a SHA-256; drop requireDigest to take it`,
    );
}

/** How long to wait for what, in milliseconds. The time in which the reader does not read does not count. */
export interface TransferTimeouts extends PeerTimeouts {
  /** For the headers of a response, and for all of one that is a JSON-RPC message. Default: 30 s. */
  readonly headersMs: number;
  /**
   * For the whole transfer. Default: 60 s and 1 s for every 64 KiB, at most 6 h. The pauses between tries may take as
   * long again, by default at least 5 min; a server that still says no after them ends the transfer as `throttled`,
   * `unavailable` or `interrupted`.
   */
  readonly totalMs?: number;
}

/** The defaults. */
export const transferTimeouts: TransferTimeouts = { ...peerTimeouts, headersMs: 30_000 };

/** How long a transfer of `size` bytes may take. */
export function totalMsOf({ totalMs }: TransferTimeouts, size: number = Infinity): number {
  return totalMs ?? fairMsOf(size);
}

/** How long all pauses between tries may take together. */
export function pausesMsOf(timeouts: TransferTimeouts, size: number | undefined): number {
  return timeouts.totalMs ?? Math.max(300_000, totalMsOf(timeouts, size));
}

/** The scale of a transfer, known before any of its bytes is read. */
export interface TransferScale {
  readonly files: number;
  /** Of all files whose size is known. */
  readonly bytes: number;
  /** Files of unknown size: the server does not say. */
  readonly unknownSizes: number;
  /** Hosts that the bytes come from. */
  readonly from: readonly string[];
  /** File or folder that they go to, as the caller named it; absent when they go to the caller. */
  readonly to?: string;
}

/** Says whether a transfer may begin. Asked once for each, before its first byte is read. */
export type Consent = (scale: TransferScale) => boolean | Promise<boolean>;
