export { createAuditFile, type AuditFile, type AuditFileOptions } from "./audit/audit-file.ts";
export { formatHead, parseHead, type ChainHead } from "./audit/audit-chain.ts";
export {
  verifyAuditFiles,
  type AuditFinding,
  type AuditProblem,
  type AuditVerdict,
  type VerifyOptions,
} from "./audit/verify-audit.ts";
export { createClientAddress, socketAddress } from "./access/client-address.ts";
export { openKeyFile, parseKeyFile, type KeyFile, type KeyFileOptions } from "./urls/key-file.ts";
