export { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./lib/error.ts";
export type { ByteRange, FileRegion, Sink, Source } from "./lib/source.ts";
export { isTlsFault, tlsFault } from "./lib/tls-fault.ts";
export { discardSource } from "./lib/discard-source.ts";
export { ByteQueue } from "./lib/byte-queue.ts";

export {
  formatContentRange,
  formatRange,
  formatUnsatisfiedRange,
  parseContentRange,
  parseRange,
  type ContentRange,
} from "./lib/range.ts";
export {
  formatEntityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseEntityTag,
  type EntityTag,
} from "./lib/entity-tag.ts";
export { createSha256, type Sha256 } from "./lib/sha256.ts";
export { builtInModule } from "./lib/built-in-module.ts";
export { formatReprDigest, parseReprDigest } from "./lib/repr-digest.ts";
export {
  formatContentType,
  isActiveType,
  isProtocolType,
  parseMediaType,
  type MediaType,
} from "./lib/media-type.ts";
export {
  formatContentDisposition,
  parseContentDisposition,
  type ContentDisposition,
} from "./lib/content-disposition.ts";
export { contentCodings } from "./lib/content-codings.ts";
export { fileNameFromUri, localFileName, sanitizeFileName, trueFileName } from "./lib/file-name.ts";
export { formatResourceUri, isSameResource, parseResourceUri } from "./lib/resource-uri.ts";
export { parseHttpDate } from "./lib/http-date.ts";
export { parseRetryAfter } from "./lib/retry-after.ts";
export { parseJson } from "./lib/parse-json.ts";

export {
  createKeyRing,
  formatKey,
  generateKey,
  parseKey,
  type KeyRing,
  type KeyRingInput,
  type KeyState,
  type SealingKey,
} from "./lib/key-ring.ts";
export { principalTag, resourceTag, type Principal } from "./lib/principal.ts";
export { createSealer, type Sealer, type SealerOptions } from "./lib/sealed-token.ts";
export {
  createTokenStore,
  isStoredToken,
  type TokenStore,
  type TokenStoreOptions,
} from "./lib/stored-token.ts";
export type { SealedToken, SealTerms, UnsealedToken } from "./lib/token-contents.ts";
export { createTextSealer, type TextSealer, type TextSealerOptions } from "./lib/sealed-text.ts";
export {
  tokenLifetimes,
  type TokenAuth,
  type TokenLifetime,
  type TokenPurpose,
} from "./lib/token-lifetime.ts";

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
} from "./lib/grant.ts";
export type {
  Claim,
  GrantSelector,
  RecordTerms,
  SessionBinding,
  StateStore,
  StateStoreLimits,
} from "./lib/state-store.ts";
export { createMemoryStateStore, type MemoryStateStoreOptions } from "./lib/memory-state-store.ts";
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
} from "./lib/event-store.ts";
export { createMemoryEventStore } from "./lib/memory-event-store.ts";
export type {
  HeldFile,
  ListedFile,
  UploadLease,
  UploadStore,
  WriterClaim,
  WriterOutcome,
} from "./lib/upload-store.ts";
export { createMemoryUploadStore } from "./lib/memory-upload-store.ts";

export {
  advanceTransfer,
  startTransfer,
  type KeptBytes,
  type Transfer,
  type TransferEvent,
  type TransferFailure,
  type TransferProgress,
} from "./lib/transfer.ts";
export type { Interruption, Recovery, Tries } from "./lib/recovery.ts";
