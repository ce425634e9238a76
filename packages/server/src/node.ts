export { createAuditFile, type AuditFile, type AuditFileOptions } from "./lib/audit-file.ts";
export { formatHead, parseHead, type ChainHead } from "./lib/audit-chain.ts";
export {
  verifyAuditFiles,
  type AuditFinding,
  type AuditProblem,
  type AuditVerdict,
  type VerifyOptions,
} from "./lib/verify-audit.ts";
export { createClientAddress, socketAddress } from "./lib/client-address.ts";
export { openKeyFile, parseKeyFile, type KeyFile, type KeyFileOptions } from "./lib/key-file.ts";
