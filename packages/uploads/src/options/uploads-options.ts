import type { UploadStore } from "@sluice/state";
import type { StorageBackend } from "@sluice/storage";
import type { UploadQuota } from "../limits/quota-tracker.ts";
import type { UploadPace } from "../receive/read-body.ts";
import type { Scan } from "../store/scan.ts";

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
