export {
  SluiceError,
  formatKey,
  generateKey,
  type Principal,
  type SluiceErrorCode,
} from "@sluice/core";
export * from "@sluice/server";
export { createMemoryStores, type StateStore, type Stores } from "@sluice/state";
export { createMemoryBackend, type StorageBackend, type WritableBackend } from "@sluice/storage";
export * from "@sluice/transport-http";
export * from "@sluice/uploads";
