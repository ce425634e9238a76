/**
 * A bridge between an MCP host and the server behind it.
 * @module
 */
export { runBridge, type BridgeOptions } from "./relay/run-bridge.ts";
export type { BridgeCalls, RelayHooks, RequestDecision } from "./messages/hooks.ts";
export type { BridgeLimits } from "./messages/limits.ts";
export type { Answer, Members } from "./messages/messages.ts";
export { createStdioHost, type StdioHostOptions } from "./relay/stdio-host.ts";
export { createProcessUpstream } from "./upstream/process-transport.ts";
export type { ProcessOptions } from "./upstream/process-transport.ts";
export type { Flow, Upstream } from "./upstream/upstream.ts";
export { createHttpUpstream, type HttpUpstreamOptions } from "./upstream/http-upstream.ts";
export { bridgeStateFolder } from "./upstream/oauth/token-file.ts";
export type { SignInOptions } from "./upstream/oauth/sign-in.ts";
export type { SpoolLimits } from "./spool/message-spooler.ts";
export type { SpooledString, SpooledStrings } from "./spool/spooled-string.ts";
export type { SpoolPart, SpoolTarget } from "./spool/spooled-string.ts";
export {
  openResultLinks,
  type HeldResult,
  type ResultLinks,
  type ResultLinksOptions,
} from "./links/result-links.ts";
export type { HeldLink } from "./links/result-links.ts";
export { createMemoryHold, type MemoryHoldOptions } from "./links/create-hold.ts";
export { createStorageHold, type StorageHoldOptions } from "./links/create-hold.ts";
export type { HoldShare, ResultHold } from "./links/result-hold.ts";
export { diagnose, type DiagnoseOptions } from "./doctor/diagnose.ts";
export type { FindingCause, TransferFinding } from "./doctor/transfer-finding.ts";
export { openFileTools, type FileTools, type FileToolsOptions } from "./tools/file-tools.ts";
export type { FileServer } from "./tools/tool-context.ts";
