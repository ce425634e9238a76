/**
 * What transports and packages that serve alongside a Sluice build on. Outside of the promise of versions: it changes in
 * any release.
 * @module
 */
export type { Host } from "./options/sluice.ts";
export type { AuthorizationRequest, AuthorizedStorage } from "./storage/authorized-storage.ts";
export { addressShare } from "./limits/share.ts";
export type { BindSession } from "./access/bound-sessions.ts";
export {
  createOriginGate,
  publicCorsHeaders,
  refuseFields,
  type OriginGate,
  type OriginGateOptions,
} from "./http/origin-gate.ts";
export { conditionFields } from "./urls/open-version.ts";
export { tagOf, type Identity } from "./access/principal.ts";
export type { AuditEnding, AuditEntry, BeginAudit } from "./audit/audit.ts";
export type { Listen, Listening, ListenRequest } from "./changes/listen.ts";
export { shieldHeaders } from "./http/byte-headers.ts";
export { html, type Html } from "./http/html.ts";
export { appDocument } from "./apps/app-document.ts";
export { appToolMeta, serveApp, showsApps, type HostApp } from "./apps/host-app.ts";
export { pageAsset, type PageAsset } from "./http/page-asset.ts";
export {
  discardReply,
  ensurePromisedBytes,
  pageHeaders,
  pageReply,
  problem,
  problemOf,
  type ProblemOptions,
  type ProblemReason,
  type Reply,
  type ReplyTransfer,
  type TransferResult,
} from "./http/reply.ts";
export {
  closeReplySlot,
  Exchange,
  noteRequest,
  notesOf,
  openReplySlot,
  exchangeTiedTo,
  SHARED_REQUEST_HEADER,
  shareRequest,
  type SentListener,
  type ReplySlot,
  type RequestNotes,
} from "./calls/exchange.ts";
export { createFailedRedemptions, type FailedRedemptions } from "./limits/failed-redemptions.ts";
export type {
  BrowseRequest,
  FolderLink,
  FolderView,
  BrowsedFile as ListedFile,
} from "./resources/browse-folder.ts";
export type { WalkedObject, WalkRequest } from "./resources/walk-folder.ts";
export type { LinkTerms } from "./urls/grant-options.ts";
export type { MintedGrant } from "./urls/grants.ts";
export type { Redeem, RedeemRequest } from "./urls/redeem.ts";
export { createByteAccount, type ByteAccount, type ByteLease } from "./limits/byte-account.ts";
export type { UsageMeter } from "./limits/rate-limits.ts";
export type { ClientShare } from "./limits/share.ts";
export type { ContentHeads } from "./content/content-head.ts";
export { callerOf, clientCapabilities, revisionOf } from "./calls/request-caller.ts";
export type { RpcFault } from "./faults/rpc-fault.ts";
export { toolError, toolFault } from "./faults/advice.ts";
export { callInV2, serverInV2 } from "./calls/sdk-v1.ts";
export { optionalInput, toolSchema, withoutDialect } from "./tools/tool-input.ts";
