export { createSluice } from "./options/create-sluice.ts";
export type { Sluice } from "./options/sluice.ts";
export type { FollowedKeys, SluiceOptions } from "./options/sluice-options.ts";
export type { Endpoint } from "./options/check-options.ts";
export type { Revocation } from "./urls/revoke.ts";
export type { AttachOptions } from "./attach/attach.ts";
export type { ToolOptions } from "./tools/tool-parts.ts";
export type { AccessAction, AccessDecision, AccessPageRule, AccessRule } from "./access/access.ts";
export type { Caller, ClientAddress, PrincipalResolver } from "./access/principal.ts";
export type { Delivery, DeliveryPolicy, DeliverySubject } from "./storage/delivery-policy.ts";
export type { ClientLimits } from "@sluice/core/internal";
export type { MountLimits, SluiceLimits } from "./limits/sluice-limits.ts";
export type { RateLimiter, RateLimits, SluiceRates } from "./limits/rate-limits.ts";
export type { AuditAction, AuditFacts, AuditOutcome, AuditRecord } from "./audit/audit-record.ts";
export type { AuditFile, AuditInput, AuditOptions, AuditSink } from "./audit/audit-options.ts";
export type { CarrierReader, Telemetry, TelemetrySpan } from "./audit/telemetry.ts";
export type {
  GrantOptions,
  LinkDisposition,
  LinkRules,
  LinkUse,
  TokenForm,
} from "./urls/grant-options.ts";
export type { CreateLink, IssuedLink, LinkCaller, LinkOptions } from "./urls/create-link.ts";
export type { CreateResourceLink, ResourceLinkOptions } from "./resources/resource-link.ts";
export type { PrincipalOfCall } from "./calls/call-principal.ts";
export type { AnyCall, AnyMcpServer, ExtraV1, McpServerV1, ServerV1 } from "./calls/sdk-v1.ts";
export type { BinaryReads } from "./resources/resource-reader.ts";
export type { MountOptions, MountRules, PrincipalStorage } from "./storage/mount.ts";
export type { ProviderOptions } from "./storage/provider-mount.ts";
export type {
  Provided,
  ProvidedInfo,
  ProvidedPipe,
  ProvidedProcess,
  ProvidedResponse,
  ProvidedUrl,
  Provider,
  ProvideRequest,
} from "./provide/provider.ts";
export type { DescribeResource, ResourceMetadata } from "./storage/resource-metadata.ts";
