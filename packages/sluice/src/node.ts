export { createAuditFile, openKeyFile, type AuditFile, type KeyFile } from "@sluice/server/node";
export { createFsBackend, type FsBackendOptions } from "@sluice/storage-fs";
export {
  drainServer,
  hardenServer,
  toNodeHandler,
  type NodeHandler,
} from "@sluice/transport-http/node";
