export { createSluice, type Host, type Sluice } from "./options/create-sluice.ts";
export type { GrantOptions, SluiceOptions, Endpoint } from "./options/sluice-options.ts";
export type { Revocation } from "./grants/revoke.ts";
export type { AttachOptions } from "./sdk/attach.ts";
export type { AccessAction, AccessDecision, AccessPageRule, AccessRule } from "./access/access.ts";
export type { Caller, PrincipalResolver } from "./access/principal.ts";
export type { Delivery, DeliveryPolicy, DeliverySubject } from "./delivery/delivery.ts";
export type { AnswerLimits, StreamLimits } from "./limits/stream-limits.ts";
export type { RateLimiter, RateLimits, WindowLimits } from "./limits/rate-limits.ts";
export type {
  AuditAction,
  AuditEntry,
  AuditOptions,
  AuditOutcome,
  AuditRecord,
  AuditSink,
} from "./audit/audit.ts";
export type { CarrierReader, Telemetry, TelemetrySpan } from "./audit/telemetry.ts";
export type { LinkOptions } from "./resources/resource-link.ts";
export type { AnyCall, AnyMcpServer, McpServerV1, ServerV1 } from "./sdk/sdk-v1.ts";
export type { ExtraV1 } from "./sdk/sdk-v1-context.ts";
export type { DescribeResource, ResourceMetadata } from "./resources/resource-entry.ts";

// for transports and for packages beside this one
export { callerOf, tagOf } from "./options/sluice-parts.ts";
export { eraOf } from "./delivery/client-streaming.ts";
export type { Listening, ListenRequest } from "./changes/listen.ts";
export type { RedeemRequest } from "./grants/redeem.ts";
export type { BinaryReads } from "./resources/read-binary.ts";
export { discardReply, type Reply, type Transfer, type TransferResult } from "./delivery/reply.ts";
export { problem, type ProblemOptions, type ProblemReason } from "./delivery/problem.ts";
export { problemOf } from "./grants/redeem.ts";
export { shieldHeaders } from "./delivery/byte-headers.ts";
export { createFailedRedemptions, type FailedRedemptions } from "./grants/failed-redemptions.ts";
export { closeStreamSlot, openStreamSlot, type StreamSlot } from "./delivery/stream-slot.ts";
export { callInV2, serverInV2 } from "./sdk/sdk-v1.ts";
export { shareRequest, SHARED_REQUEST_HEADER } from "./delivery/shared-request.ts";
export {
  noteRequest,
  notesOf,
  type AnswerKeeper,
  type RequestNotes,
} from "./delivery/request-notes.ts";
export { addressShare } from "./access/address-share.ts";
export { createByteAccount, type ByteAccount, type ByteLease } from "./limits/byte-account.ts";
export type { RpcFault } from "./sdk/rpc-fault.ts";
export { isLoopbackHost } from "./options/sluice-options.ts";
export { refuseFields } from "./delivery/header-fields.ts";
export { createOriginGate, type OriginGate, type OriginGateOptions } from "./access/origin-gate.ts";
