export {
  retryWords,
  SluiceError,
  type SluiceErrorCode,
  type SluiceErrorOptions,
} from "./errors/error.ts";
export {
  discardSource,
  type ByteRange,
  type FileRegion,
  type Sink,
  type Source,
} from "./bytes/source.ts";
export { httpError } from "./errors/http-error.ts";
export { isTlsFault, tlsFault } from "./errors/tls-fault.ts";
export {
  createFlowBody,
  flowOf,
  type ByteFlow,
  type Lending,
  type WriteChunk,
} from "./bytes/byte-flow.ts";
export { ByteQueue } from "./bytes/byte-queue.ts";
export { pullStream } from "./bytes/source.ts";
export { createRecentEntries, type RecentEntries } from "./bytes/recent-entries.ts";

export {
  formatContentRange,
  formatRange,
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
export { decodeBase64, decodeBase64Url, encodeBase64, encodeBase64Url } from "./bytes/base64.ts";
export { createSha256 } from "./bytes/sha256.ts";
export type { Sha256 } from "./bytes/portable-sha256.ts";
export { builtInModule } from "./bytes/built-in-module.ts";
export { formatReprDigest, parseReprDigest } from "./headers/repr-digest.ts";
export {
  formatContentType,
  parseMediaType,
  unpromisedFormat,
  type MediaType,
} from "./headers/media-type.ts";
export {
  formatContentDisposition,
  parseContentDisposition,
  type ContentDisposition,
} from "./headers/content-disposition.ts";
export { extensionOf, isAccepted, isTextName } from "./headers/accept-list.ts";
export { canonicalType } from "./headers/type-names.ts";
export { contentCodings } from "./headers/content-codings.ts";
export { withoutCredentials } from "./headers/excerpt.ts";
export { curlLine } from "./headers/file-name.ts";
export { excerpt } from "./headers/excerpt.ts";
export {
  fileNameFromUri,
  isPlainPath,
  localFileName,
  sanitizeFileName,
  trueFileName,
} from "./headers/file-name.ts";
export { formatResourceUri, isSameResource, parseResourceUri } from "./json-rpc/resource-uri.ts";
export type { FetchLike, Secret } from "./wire/mcp.ts";
export { parseHttpDate, parseRetryAfter } from "./headers/http-date.ts";
export { linkWith } from "./headers/link-header.ts";
export {
  clearOrigin,
  ensureConfidential,
  isClearUrl,
  isLoopbackHost,
} from "./headers/loopback-host.ts";
export { readTarget } from "./headers/request-target.ts";
export { ensureKnownOptions } from "./errors/known-options.ts";
export { definedMembers, type DefinedMembers } from "./json-rpc/message.ts";
export { parseJson } from "./json-rpc/message.ts";
export {
  createEventReader,
  eventsIn,
  isEventStream,
  type EventReader,
  type EventReaderOptions,
  type RpcEvent,
  type ServerEvent,
} from "./json-rpc/server-events.ts";
export {
  cancelledBy,
  isRequest,
  isResponse,
  keyOf,
  namesMethod,
  readJson,
  readRpc,
  type LooseMessage,
  type LooseRequest,
  type LooseResponse,
  type MessageFault,
  type ReadJson,
  type ReadRpc,
  type RpcCall,
  type RpcId,
  type RpcMessage,
  type RpcResponse,
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
  createSealer,
  type IssuedToken,
  type OpenedToken,
  type Sealer,
  type SealerOptions,
  type TokenClaims,
} from "./tokens/sealed-token.ts";
export { maxKeyBytes } from "./tokens/claims-layout.ts";
export { createTextSealer, type TextSealer, type TextSealerOptions } from "./tokens/seal.ts";
export {
  clockSkewMs,
  isExpired,
  tokenLifetimes,
  type GrantUse,
  type TokenAuth,
  type TokenLifetime,
  type TokenPurpose,
} from "./tokens/token-lifetime.ts";

export {
  advanceTransfer,
  startTransfer,
  type KeptBytes,
  type Transfer,
  type TransferEvent,
} from "./transfer/transfer.ts";
export {
  progressBytes,
  retryDelayMs,
  type Interruption,
  type Recovery,
  type SpentRetries,
  type TransferFailure,
  type TransferProgress,
} from "./transfer/recovery.ts";
