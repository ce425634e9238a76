import type { Sluice } from "@sluice/server";
import type { Slots } from "./slots.ts";
import type { UploadsOptions } from "./uploads-options.ts";

/** Slots and the endpoint that takes what is sent to them. */
export interface Uploads extends Slots {
  /** Removes what was never confirmed and whose time is over. Runs at the start and by timer, too. */
  sweep(options?: { readonly signal?: AbortSignal }): Promise<void>;
  /** Ends the timer and the uploads under way. Idempotent. */
  close(): Promise<void>;
}

/**
 * Makes the upload side of a Sluice: the same endpoint, keys, identities, limits and records.
 * Throws a `TypeError` or `RangeError` for options that cannot work.
 */
export function createUploads(_sluice: Sluice, _options: UploadsOptions): Uploads {
  throw new TypeError("createUploads: not built yet");
}
