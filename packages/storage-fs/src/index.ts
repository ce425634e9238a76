export { createFsBackend, type FsBackendOptions } from "./lib/fs-backend.ts";
