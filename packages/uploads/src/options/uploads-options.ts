import { ensureKnownOptions, ensureStepBytes } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import type { Stores, UploadStore } from "@sluice/state";
import type { WritableBackend } from "@sluice/storage";
import type { UploadLimits } from "../limits/quota-tracker.ts";
import type { UploadPace } from "../receive/body-reader.ts";
import type { Scan } from "../store/scan.ts";
import { toUploadStorage, type UploadStorage } from "../store/upload-storage.ts";

/** Options of `createUploads`. */
export interface UploadsOptions {
  /** Where files go: any backend with `write` and `remove` that nothing lists resources from. */
  readonly storage: WritableBackend;
  /** Looks into each file before a tool may read it. `"none"`: files are used as they came, with `scan: "unscanned"`. */
  readonly scan: Scan | "none";
  /** Name of the server on its upload pages, before host and port of its endpoint. Default: only these. */
  readonly name?: string;
  /** Shared by all processes over the same storage; they stay the caller's. Default: those of the Sluice. */
  readonly stores?: Pick<Stores, "uploads">;
  /** Largest file, in bytes, whatever a slot says. Default 100 MiB. */
  readonly maxBytes?: number;
  /**
   * Maximum bytes of one step of a file, at least 64 KiB: what a proxy in front of the endpoint allows for the body of a
   * request. Senders are told (`Upload-Limit: max-append-size`). Default: they are told nothing.
   */
  readonly maxStepBytes?: number;
  /** Maximum requests, files and bytes of one principal: `{ files: { perPrincipal: 100 } }`. */
  readonly limits?: UploadLimits;
  /** Bounds on how slowly a body may come. */
  readonly pace?: UploadPace;
  /** Milliseconds between sweeps of what was never confirmed. Default 60,000. */
  readonly sweepIntervalMs?: number;
  /**
   * Origins from which files that a host hands over are fetched, beside HTTPS at public addresses: exact, such as
   * `http://127.0.0.1:8080`, or with one open label, such as `https://*.example.com`. Default: none. In runtimes other than
   * Node they are the only ones.
   */
  readonly trustedOrigins?: readonly string[];
}

interface CheckedOptions {
  readonly storage: UploadStorage;
  /** `undefined`: files are used as they came. */
  readonly scan: Scan | undefined;
  readonly store: UploadStore;
  readonly maxBytes: number;
  readonly maxStepBytes: number | undefined;
  readonly sweepIntervalMs: number;
  readonly trustedOrigins: readonly string[];
}

/** The options with their defaults. Throws a `TypeError` or `RangeError` for options that cannot work. */
export function readOptions(sluice: Pick<Sluice, "host">, options: UploadsOptions): CheckedOptions {
  const stores = (sluice as Partial<Sluice> | undefined)?.host?.stores;
  if (!stores)
    throw new TypeError("createUploads: the first argument must be what createSluice gave");
  if (typeof (options as Partial<UploadsOptions> | undefined)?.storage?.open !== "function")
    throw new TypeError(
      'createUploads: storage must be a backend, such as createFsBackend({ root: "./uploads", writable: true })',
    );
  ensureKnownOptions("createUploads", options, optionNames);
  const { scan, maxBytes = 100 * 2 ** 20, sweepIntervalMs = 60_000, trustedOrigins = [] } = options;
  if (scan !== "none" && typeof (scan as Scan | undefined) !== "function")
    throw new TypeError(
      'createUploads: pass scan: a function that looks into each file, or "none" to use files as they came',
    );
  for (const [name, value] of Object.entries({ maxBytes, sweepIntervalMs }))
    if (!Number.isSafeInteger(value) || value < 1)
      throw new RangeError(`createUploads: ${name} must be a whole number from 1`);
  const { maxStepBytes } = options;
  ensureStepBytes("createUploads", maxStepBytes);
  return {
    storage: toUploadStorage(options.storage),
    scan: scan === "none" ? undefined : scan,
    store: uploadStoreOf(stores, options.stores),
    maxBytes,
    maxStepBytes,
    sweepIntervalMs,
    trustedOrigins,
  };
}

/** Throws a `TypeError` for a store that other processes do not see, where they share all else. */
function uploadStoreOf(stores: Stores, given: UploadsOptions["stores"] = stores): UploadStore {
  const { uploads } = given;
  if (isShared(stores.state) && !isShared(uploads))
    throw new TypeError(
      "createUploads: several processes share the state of the Sluice, and the uploads of its stores are in memory: a file " +
        "could have two writers, and limits would count in each process; pass stores: createRedisStores({ redis }) to createSluice",
    );
  return uploads;
}

/** A store that does not say counts as shared. */
function isShared({ shared }: { readonly shared?: boolean }): boolean {
  return shared !== false;
}

const optionNames: Readonly<Record<keyof UploadsOptions, true>> = {
  storage: true,
  scan: true,
  name: true,
  stores: true,
  maxBytes: true,
  maxStepBytes: true,
  limits: true,
  pace: true,
  sweepIntervalMs: true,
  trustedOrigins: true,
};
