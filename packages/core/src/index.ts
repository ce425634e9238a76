export { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./errors/error.ts";
export type { ByteRange, FileRegion, Sink, Source } from "./bytes/source.ts";
export { isTlsFault, tlsFault } from "./errors/tls-fault.ts";
export { discardSource } from "./bytes/discard-source.ts";
export { ByteQueue } from "./bytes/byte-queue.ts";

export {
  formatContentRange,
  formatRange,
  formatUnsatisfiedRange,
  parseContentRange,
  parseRange,
  type ContentRange,
} from "./headers/range.ts";
export {
  formatEntityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseEntityTag,
  type EntityTag,
} from "./headers/entity-tag.ts";
export { createSha256, type Sha256 } from "./bytes/sha256.ts";
export { builtInModule } from "./bytes/built-in-module.ts";
export { formatReprDigest, parseReprDigest } from "./headers/repr-digest.ts";
export {
  formatContentType,
  isActiveType,
  isProtocolType,
  parseMediaType,
  type MediaType,
} from "./headers/media-type.ts";
export {
  formatContentDisposition,
  parseContentDisposition,
  type ContentDisposition,
} from "./headers/content-disposition.ts";
export { contentCodings } from "./headers/content-codings.ts";
export {
  fileNameFromUri,
  localFileName,
  sanitizeFileName,
  trueFileName,
} from "./headers/file-name.ts";
export { formatResourceUri, isSameResource, parseResourceUri } from "./json-rpc/resource-uri.ts";
export { parseHttpDate } from "./headers/http-date.ts";
export { parseRetryAfter } from "./headers/retry-after.ts";
export { definedMembers, type DefinedMembers } from "./json-rpc/defined-members.ts";
export { JsonDepthError, parseJson } from "./json-rpc/parse-json.ts";

export {
  createKeyRing,
  formatKey,
  generateKey,
  parseKey,
  type KeyRing,
  type KeyRingInput,
  type KeyState,
  type SealingKey,
} from "./tokens/key-ring.ts";
export { principalTag, resourceTag, type Principal } from "./tokens/principal.ts";
export { createSealer, type Sealer, type SealerOptions } from "./tokens/sealed-token.ts";
export {
  createTokenStore,
  isStoredToken,
  type TokenStore,
  type TokenStoreOptions,
} from "./state/stored-token.ts";
export type { SealedToken, SealTerms, UnsealedToken } from "./tokens/token-contents.ts";
export { createTextSealer, type TextSealer, type TextSealerOptions } from "./tokens/sealed-text.ts";
export {
  tokenLifetimes,
  type TokenAuth,
  type TokenLifetime,
  type TokenPurpose,
} from "./tokens/token-lifetime.ts";

export {
  claimGrant,
  clockSkewMs,
  grantState,
  leaseAllowance,
  leaseCharge,
  leaseMs,
  refundGrant,
  revokeGrant,
  type ClaimedBody,
  type GrantRecord,
  type GrantState,
  type GrantTerms,
  type GrantUse,
} from "./tokens/grant.ts";
export type {
  Claim,
  GrantSelector,
  RecordTerms,
  SessionBinding,
  StateStore,
  StateStoreLimits,
} from "./state/state-store.ts";
export {
  createMemoryStateStore,
  type MemoryStateStoreOptions,
} from "./state/memory-state-store.ts";
export {
  eventStoreDefaults,
  lastEventBytes,
  type Ask,
  type EventStore,
  type EventStoreLimits,
  type NewAnswer,
  type NewEvent,
  type NewStream,
  type StreamPage,
} from "./state/event-store.ts";
export { createMemoryEventStore } from "./state/memory-event-store.ts";
export type {
  HeldFile,
  ListedFile,
  UploadLease,
  UploadStore,
  WriterClaim,
  WriterOutcome,
} from "./state/upload-store.ts";
export { createMemoryUploadStore } from "./state/memory-upload-store.ts";

export {
  advanceTransfer,
  startTransfer,
  type KeptBytes,
  type Transfer,
  type TransferEvent,
  type TransferFailure,
  type TransferProgress,
} from "./transfer/transfer.ts";
export type { Interruption, Recovery, Tries } from "./transfer/recovery.ts";
