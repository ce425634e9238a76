export { createSluice, type Host, type Sluice } from "./lib/create-sluice.ts";
export type { GrantOptions, SluiceOptions, Endpoint } from "./lib/sluice-options.ts";
export type { Revocation } from "./lib/revoke.ts";
export type { AttachOptions } from "./lib/attach.ts";
export type { AccessAction, AccessDecision, AccessPageRule, AccessRule } from "./lib/access.ts";
export type { Caller, PrincipalResolver } from "./lib/principal.ts";
export type { Delivery, DeliveryPolicy, DeliverySubject } from "./lib/delivery.ts";
export type { AnswerLimits, StreamLimits } from "./lib/stream-limits.ts";
export type { RateLimiter, RateLimits, WindowLimits } from "./lib/rate-limits.ts";
export type {
  AuditAction,
  AuditEntry,
  AuditOptions,
  AuditOutcome,
  AuditRecord,
  AuditSink,
} from "./lib/audit.ts";
export type { CarrierReader, Telemetry, TelemetrySpan } from "./lib/telemetry.ts";
export type { LinkOptions } from "./lib/resource-link.ts";
export type { AnyCall, AnyMcpServer, McpServerV1, ServerV1 } from "./lib/sdk-v1.ts";
export type { ExtraV1 } from "./lib/sdk-v1-context.ts";
export type { DescribeResource, ResourceMetadata } from "./lib/resource-entry.ts";

// for transports and for packages beside this one
export { callerOf, tagOf } from "./lib/sluice-parts.ts";
export { eraOf } from "./lib/client-streaming.ts";
export type { Listening, ListenRequest } from "./lib/listen.ts";
export type { RedeemRequest } from "./lib/redeem.ts";
export type { BinaryReads } from "./lib/read-binary.ts";
export { discardReply, type Reply, type Transfer, type TransferResult } from "./lib/reply.ts";
export { problem, type ProblemOptions, type ProblemReason } from "./lib/problem.ts";
export { problemOf } from "./lib/redeem.ts";
export { shieldHeaders } from "./lib/byte-headers.ts";
export { createFailedRedemptions, type FailedRedemptions } from "./lib/failed-redemptions.ts";
export { closeStreamSlot, openStreamSlot, type StreamSlot } from "./lib/stream-slot.ts";
export { callInV2, serverInV2 } from "./lib/sdk-v1.ts";
export { shareRequest, SHARED_REQUEST_HEADER } from "./lib/shared-request.ts";
export { noteRequest, notesOf, type AnswerKeeper, type RequestNotes } from "./lib/request-notes.ts";
export { addressShare } from "./lib/address-share.ts";
export { createByteAccount, type ByteAccount, type ByteLease } from "./lib/byte-account.ts";
export type { RpcFault } from "./lib/rpc-fault.ts";
export { isLoopbackHost } from "./lib/sluice-options.ts";
export { refuseFields } from "./lib/header-fields.ts";
export { createOriginGate, type OriginGate, type OriginGateOptions } from "./lib/origin-gate.ts";
