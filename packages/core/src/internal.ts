/**
 * What the other packages of Sluice build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export {
  cancelledBy,
  definedMembers,
  type DefinedMembers,
  isRequest,
  isResponse,
  keyOf,
  type LooseMessage,
  type LooseRequest,
  type LooseResponse,
  type MessageFault,
  namesMethod,
  parseJson,
  readJson,
  type ReadJson,
  readRpc,
  type ReadRpc,
  type RpcCall,
  type RpcId,
  type RpcMessage,
  type RpcResponse,
} from "./json-rpc/message.ts";
export { formatResourceUri, isSameResource, parseResourceUri } from "./json-rpc/resource-uri.ts";
export { createIdEventFiller } from "./json-rpc/id-events.ts";
export {
  createEventReader,
  type EventReader,
  type EventReaderOptions,
  eventsIn,
  isEventStream,
  isMessageEvent,
  type RpcEvent,
  type ServerEvent,
} from "./json-rpc/server-events.ts";
export { extensionOf, isAccepted, isTextName } from "./headers/accept-list.ts";
export { contentCodings } from "./headers/content-codings.ts";
export {
  type ContentDisposition,
  formatContentDisposition,
  parseContentDisposition,
} from "./headers/content-disposition.ts";
export { readSentDisposition } from "./headers/sent-disposition.ts";
export {
  type EntityTag,
  formatEntityTag,
  matchesIfMatch,
  matchesIfNoneMatch,
  matchesIfRange,
  parseEntityTag,
} from "./headers/entity-tag.ts";
export { excerpt, withoutCredentials } from "./headers/excerpt.ts";
export {
  curlLine,
  fileNameFromUri,
  foldName,
  isPlainPath,
  localFileName,
  sanitizeFileName,
  trueFileName,
} from "./headers/file-name.ts";
export { parseHttpDate, parseRetryAfter } from "./headers/http-date.ts";
export { linkWith } from "./headers/link-header.ts";
export {
  clearOrigin,
  ensureConfidential,
  groupsOfV6,
  isClearUrl,
  isLoopbackHost,
} from "./headers/loopback-host.ts";
export {
  formatContentType,
  type MediaType,
  parseMediaType,
  unpromisedFormat,
} from "./headers/media-type.ts";
export {
  type ContentRange,
  formatContentRange,
  formatRange,
  parseContentRange,
  parseRange,
} from "./headers/range.ts";
export { formatReprDigest, parseReprDigest } from "./headers/repr-digest.ts";
export { readTarget } from "./headers/request-target.ts";
export { canonicalType } from "./headers/type-names.ts";

// the vocabulary of the protocol: names and numbers, each in exactly one place
export {
  BINARY_ABORT_METHOD,
  BINARY_CREDIT_METHOD,
  BINARY_EXTENSION_ID,
  type BinaryMode,
  type BinaryRef,
  type BinaryTransferContent,
} from "./wire/binary.ts";
export { type ErrorRow, errorTable, type Reason } from "./wire/errors.ts";
export {
  AUTHORIZE_DOWNLOAD_METHOD,
  AUTHORIZE_UPLOAD_METHOD,
  FILE_KEYWORD,
  FILE_URI_SCHEME,
  type FileInputDescriptor,
  type FileTransferDescriptor,
  type FileValue,
} from "./wire/files.ts";
export {
  ELICIT_METHOD,
  FIRST_MODERN_VERSION,
  HEADER_MISMATCH_CODE,
  LISTEN_METHOD,
  METHOD_HEADER,
  NAME_HEADER,
  type RevisionKind,
} from "./wire/mcp.ts";
export { bearerOf, valueOf, withBearer } from "./wire/secret.ts";
export {
  type ClientStreaming,
  type DeliveryMode,
  deliveryModes,
  type DownloadUrlMeta,
  type DownloadUrlResult,
  EXTENSION_ID,
  OFFLOAD_HEADER,
  RESOURCE_SIZE_HEADER,
  RESOURCE_TYPE_HEADER,
  RESOURCE_URI_HEADER,
  STREAM_METHOD,
  STREAM_RELATION,
} from "./wire/streaming.ts";
export {
  maxTreeFileBytes,
  maxTreeUriLength,
  TREE_METHOD,
  TREE_TYPE,
  type TreeBounds,
  treeBounds,
  lesserTreeBounds,
  treeBoundsIn,
  type TreeHead,
  type TreeRefusal,
  type TreeTrailer,
} from "./wire/tree.ts";
export { formatTreeFrame } from "./tree/tree-frames.ts";
export { type TreeEvent, TreeReader } from "./tree/tree-reader.ts";
export {
  type AnsweredFile,
  type BinaryElicitation,
  type FileFieldSchema,
  PARTIAL_UPLOAD_TYPE,
  UPLOAD_COMPLETE_HEADER,
  UPLOAD_LENGTH_HEADER,
  UPLOAD_LIMIT_HEADER,
  UPLOAD_OFFSET_HEADER,
  type UploadEndpoint,
  type UploadEndpointMeta,
  UPLOADS_EXTENSION_ID,
} from "./wire/uploads.ts";
export { ensureStepBytes, MIN_STEP_BYTES, smallerStep } from "./wire/upload-steps.ts";

export { maxKeyBytes } from "./tokens/claims-layout.ts";
export { parseKey } from "./tokens/key-ring.ts";
export { createTextSealer, type TextSealer, type TextSealerOptions } from "./tokens/seal.ts";
export { clockSkewMs, isExpired } from "./tokens/token-lifetime.ts";
export {
  type Interruption,
  progressBytes,
  type Recovery,
  retryDelayMs,
  type SpentRetries,
  type TransferFailure,
  type TransferProgress,
} from "./transfer/recovery.ts";
export {
  advanceTransfer,
  type KeptBytes,
  startTransfer,
  type Transfer,
  type TransferEvent,
} from "./transfer/transfer.ts";
export {
  bytesOfHex,
  decodeAnyBase64,
  decodeBase64,
  decodeBase64Url,
  encodeBase64,
  encodeBase64Url,
} from "./bytes/base64.ts";
export { builtInModule } from "./bytes/built-in-module.ts";
export { createFlowBody, flowOf } from "./bytes/byte-flow.ts";
export { ByteQueue, joinChunks } from "./bytes/byte-queue.ts";
export type { Sha256 } from "./bytes/portable-sha256.ts";
export { createRecentEntries, type RecentEntries } from "./bytes/recent-entries.ts";
export { createSha256 } from "./bytes/sha256.ts";
export { sizeText } from "./bytes/size-text.ts";
export { discardSource, pullStream } from "./bytes/source.ts";
export { httpError, retryWords } from "./errors/error.ts";
export { partsOnce } from "./errors/parts-once.ts";
export { isTlsFault, tlsFault } from "./errors/tls-fault.ts";
export { ensureKnownOptions } from "./errors/known-options.ts";
export { readLimits, type ClientLimits } from "./errors/read-limits.ts";

// waiting, clocks and limits
export { backgroundClock, type Clock, IdleTimer, systemClock } from "./async/clock.ts";
export {
  ConcurrencyLimiter,
  createSharedRuns,
  Notifier,
  ResultGap,
  TurnQueue,
} from "./async/concurrency.ts";
export { defer, type Deferred } from "./async/deferred.ts";
export { onAbort } from "./async/on-abort.ts";
export { PeerWatch, type PeerWatchOptions } from "./async/peer-watch.ts";
export {
  createSessionTable,
  type SessionBounds,
  type SessionEntry,
  type SessionTable,
} from "./async/session-table.ts";
export { nextTurn, sleep } from "./async/sleep.ts";
export {
  type Lateness,
  ThroughputBudget,
  type ThroughputRules,
  type ThroughputWatch,
  watchThroughput,
} from "./async/throughput-watch.ts";
export { abortable, type Deadline, isInTime, within } from "./async/within.ts";
