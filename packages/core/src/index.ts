export { SluiceError, type SluiceErrorCode, type SluiceErrorOptions } from "./errors/error.ts";
export type { ByteRange, FileRegion, Sink, Source } from "./bytes/source.ts";
export { httpError } from "./errors/http-error.ts";
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
export { decodeBase64Url, encodeBase64Url } from "./bytes/base64.ts";
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
export { isAccepted } from "./headers/accept-list.ts";
export { contentCodings } from "./headers/content-codings.ts";
export { fileNameFromUri, localFileName, sanitizeFileName } from "./headers/file-name.ts";
export { formatResourceUri, isSameResource, parseResourceUri } from "./json-rpc/resource-uri.ts";
export { extensionOf, isTextName } from "./headers/text-names.ts";
export type { FetchLike } from "./headers/fetch-like.ts";
export { parseHttpDate } from "./headers/http-date.ts";
export { linkWith } from "./headers/link-header.ts";
export { parseRetryAfter } from "./headers/retry-after.ts";
export { definedMembers, type DefinedMembers } from "./json-rpc/defined-members.ts";
export { JsonDepthError, parseJson } from "./json-rpc/parse-json.ts";
export {
  namesMethod,
  readJson,
  readRpc,
  type MessageFault,
  type ReadJson,
  type ReadRpc,
  type RpcCall,
  type RpcMessage,
  type RpcResponse,
} from "./json-rpc/read-rpc.ts";
export {
  cancelledBy,
  isRequest,
  isResponse,
  keyOf,
  type RpcId,
  type LooseMessage,
  type LooseRequest,
  type LooseResponse,
} from "./json-rpc/message.ts";

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
export {
  createClaimsCipher,
  type ClaimsCipher,
  type ClaimsCipherOptions,
  type ClaimsNonce,
  type EncryptedClaims,
  type SealerOptions,
} from "./tokens/claims-cipher.ts";
export { createSealer, type Sealer } from "./tokens/sealed-token.ts";
export type { IssuedToken, TokenClaims, OpenedToken } from "./tokens/token-claims.ts";
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
  leaseAllowance,
  leaseCharge,
  leaseMs,
  refundGrant,
  revokeGrant,
  type GrantClaim,
  type ClaimedBody,
  type GrantRecord,
  type GrantTerms,
  type GrantUse,
} from "./tokens/grant.ts";
export {
  advanceTransfer,
  startTransfer,
  type KeptBytes,
  type Transfer,
  type TransferEvent,
} from "./transfer/transfer.ts";
export type { TransferFailure, TransferProgress, SpentRetries } from "./transfer/progress.ts";
export {
  progressBytes,
  retryDelayMs,
  type Interruption,
  type Recovery,
} from "./transfer/recovery.ts";
