import type { StorageBackend } from "@sluice/storage";

/** A storage that writes and removes. */
export type WritableStorage = StorageBackend & Required<Pick<StorageBackend, "write" | "remove">>;
