import type { UploadStore } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import type { UploadPace } from "../receive/read-body.ts";

/** What a scanner is told of a file. */
export interface ScanFacts {
  readonly uploadId: string;
  readonly name: string;
  /** Bytes. */
  readonly size: number;
  readonly mimeType: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly signal: AbortSignal;
}

/** `defer`: not known yet; asked again when the file is to be confirmed. */
export type ScanVerdict = "clean" | "reject" | "defer";

/** Scans a file before it can be read. What it throws counts as `defer`. */
export type Scan = (
  body: ReadableStream<Uint8Array>,
  facts: ScanFacts,
) => ScanVerdict | Promise<ScanVerdict>;

/** Most of what one principal may have, in all processes that share a store. */
export interface UploadQuota {
  /** Requests with a body at the same time, and a quarter of those that ask about a file or give it up. Default 4. */
  readonly concurrent?: number;
  /** Files that are kept. Default 1,000. */
  readonly files?: number;
  /** Bytes that are kept. Default 10 GiB. */
  readonly bytes?: number;
}

/** Options of `createUploads`. */
export interface UploadsOptions {
  /** Where files go: any backend with `write` and `remove` that nothing lists resources from. */
  readonly storage: StorageBackend;
  /** Shared by all processes over the same storage; it stays the caller's. Default: one in memory, for one process. */
  readonly store?: UploadStore;
  /** Largest file, in bytes, whatever a slot says. Default 100 MiB. */
  readonly maxBytes?: number;
  /** Looks into each file. Without it `unscanned` must be `"allow"`. */
  readonly onScan?: Scan;
  /** `"allow"`: files may be used without a scan. */
  readonly unscanned?: "allow";
  readonly quota?: UploadQuota;
  /** Bounds on how slowly a body may come. */
  readonly pace?: UploadPace;
  /** Milliseconds between sweeps of what was never confirmed. Default 60,000. */
  readonly sweepEveryMs?: number;
}
