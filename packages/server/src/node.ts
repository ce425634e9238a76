export type { AuditFile } from "./audit/audit-options.ts";
export { openAuditFile, type AuditFileOptions } from "./audit/audit-file.ts";
export type { ChainHead } from "./audit/audit-chain.ts";
export {
  verifyAuditFiles,
  type AuditFinding,
  type AuditProblem,
  type AuditVerdict,
  type VerifyOptions,
} from "./audit/verify-audit.ts";
export { openKeyFile, type KeyFile, type KeyFileOptions } from "./urls/key-file.ts";
