export { createFsBackend, type FsBackendOptions } from "./root/fs-backend.ts";
export { removeAbandonedWrites, type AbandonedWritesOptions } from "./write/abandoned-writes.ts";
export { holdFolder, type HeldFolder } from "./write/hold-folder.ts";
