import { ensureKnownOptions, readLimits, type ClientLimits } from "@sluice/core/internal";
import type { CompleteLimits } from "./share.ts";
import { createStreamLimiter, type StreamLimiter } from "./stream-limiter.ts";

/** What clients may have at once. Beyond `perPrincipal` and `perAddress` they get 429 or `busy`, beyond `perProcess` 503. */
export interface SluiceLimits {
  /**
   * Streams; a `resources/read` is also one, until its response is sent. Default: 8 of one principal and 256 of this process.
   * `perAddress` has no default here and below, for behind a proxy all callers may have one address: set it once
   * `clientAddress` is right.
   */
  readonly streams?: ClientLimits;
  /** Streams of `subscriptions/listen` over HTTP. Default: 32 of one principal and 10,000 of this process. */
  readonly listeners?: ClientLimits;
  /**
   * Bytes of memory for responses to `resources/read` and to the read tool, from before storage is read until the last byte is
   * handed to the network, where the transport says when that is. A response counts with three times its JSON, as many copies
   * as there are of it on its way, and a stream of a registered resource with its bytes. One response alone may be larger.
   * Default: 64 MiB for one principal and 256 MiB for this process.
   */
  readonly responseBytes?: ClientLimits;
}

/** What clients may have of one mount at once, counted beside `limits` of the Sluice. */
export interface MountLimits {
  /** Streams of this mount. Default: no limits of its own. */
  readonly streams?: ClientLimits;
}

const mib = 2 ** 20;

const sluiceDefaults: Readonly<Record<keyof SluiceLimits, CompleteLimits>> = {
  streams: { perPrincipal: 8, perAddress: undefined, perProcess: 256 },
  listeners: { perPrincipal: 32, perAddress: undefined, perProcess: 10_000 },
  responseBytes: { perPrincipal: 64 * mib, perAddress: undefined, perProcess: 256 * mib },
};

const unlimited: CompleteLimits = {
  perPrincipal: Infinity,
  perAddress: undefined,
  perProcess: Infinity,
};

/** The limits of a Sluice, complete. Throws a `TypeError` or `RangeError` for limits that cannot be. */
export function readSluiceLimits(
  limits: SluiceLimits = {},
): Readonly<Record<keyof SluiceLimits, CompleteLimits>> {
  ensureKnownOptions("createSluice: limits", limits, sluiceDefaults);
  const read = (name: keyof SluiceLimits): CompleteLimits =>
    readLimits(`createSluice: limits.${name}`, limits[name], sluiceDefaults[name]);
  return {
    streams: read("streams"),
    listeners: read("listeners"),
    responseBytes: read("responseBytes"),
  };
}

/** Counts the streams of one mount; a limit that is left out does not apply. Throws as {@link readSluiceLimits} does. */
export function createMountLimiter(limits: MountLimits): StreamLimiter {
  ensureKnownOptions("createSluice: limits of a mount", limits, { streams: true });
  const what = "createSluice: limits.streams of a mount";
  return createStreamLimiter(readLimits(what, limits.streams, unlimited));
}
