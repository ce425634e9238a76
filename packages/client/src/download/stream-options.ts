import { SluiceError } from "@sluice/core";
import type { DeliveryMode } from "@sluice/core/wire";
import { ensureTrustedOrigins } from "../trust/accept-url.ts";
import type { Consent } from "./consent.ts";
import { transferTimeouts, type TransferTimeouts } from "./transfer-timeouts.ts";

/** Options of {@link streamResource}. */
export interface StreamOptions {
  /** Ends the transfer, also long after the call returned. */
  readonly signal?: AbortSignal;
  /** Most bytes to accept. Declared to the server and enforced here. Default: 1 GiB. */
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

/** Options with every default filled in. */
export interface StreamSettings
  extends
    Pick<StreamOptions, "prefer" | "consent" | "onProgress">,
    Required<Omit<StreamOptions, "prefer" | "consent" | "onProgress" | "timeouts">> {
  readonly timeouts: TransferTimeouts;
}

/** Fills in the defaults. Throws `invalid_argument` for a trusted origin that is none. */
export function settingsOf(options: StreamOptions): StreamSettings {
  ensureTrustedOrigins(options.trustedOrigins ?? []);
  // in Workers neither a module nor another request may make it
  const { signal = new AbortController().signal, maxStreamSize = 2 ** 30, timeouts } = options;
  return {
    trustedOrigins: [],
    redirects: "trusted",
    requireDigest: false,
    ...options,
    signal,
    maxStreamSize,
    timeouts: { ...transferTimeouts, ...timeouts },
  };
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
