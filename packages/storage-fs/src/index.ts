export { createFsBackend, type FsBackendOptions } from "./lib/fs-backend.ts";
export { removeAbandonedWrites, type AbandonedWritesOptions } from "./lib/abandoned-writes.ts";
