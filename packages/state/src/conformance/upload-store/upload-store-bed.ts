import type { HeldFile, UploadLease, UploadStore } from "../../contract/upload-store.ts";
import { createStoreKit, type StoreCase, type StoreKit } from "../store-kit.ts";

/** One rule that every upload store keeps, with the check that shows it. */
export type UploadStoreCase = StoreCase<UploadStore>;

export const kit: StoreKit<UploadStore> = createStoreKit("upload store", {});

export const start = 1_800_000_000_000;
export const leaseMs = 10_000;

/** A lease that begins this many milliseconds after the start. */
export function later(ms: number): UploadLease {
  return { now: start + ms, until: start + ms + leaseMs };
}

export function permits(
  count: number,
  lease: UploadLease = later(0),
): UploadLease & { readonly permits: number } {
  return { ...lease, permits: count };
}

/** A file of an owner that may have five files and 100 bytes. */
export function file(bytes: number): HeldFile {
  return { ...later(0), bytes, maxFiles: 5, maxBytes: 100 };
}

/** The writer of "a", from the start. */
export async function firstWriter(store: UploadStore): Promise<number> {
  const { writer, outcome } = await store.claim("a", later(0));
  kit.equal(outcome, "held", "the first claim");
  return writer;
}
