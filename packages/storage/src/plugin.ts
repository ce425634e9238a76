export { SluiceError, type ByteRange, type SluiceErrorCode } from "@sluice/core";
export {
  createFlowBody,
  definedMembers,
  formatRange,
  parseContentRange,
  parseRetryAfter,
} from "@sluice/core/internal";
export { checkKey, quoteKey } from "./contract/key.ts";
export {
  type CallOptions,
  type ChangeBatch,
  type FindKept,
  type KeptObject,
  type ListOptions,
  type ListPage,
  type ObjectInfo,
  type ObjectWriter,
  type OpenedObject,
  type OpenOptions,
  type PresignedUrl,
  type PresignOptions,
  type StepOptions,
  type StepWriter,
  type StorageBackend,
  type WatchOptions,
  withKept,
  type WritableBackend,
  type WriteOptions,
} from "./contract/backend.ts";
export {
  type UnlistedCounts,
  type UnlistedReason,
  unlistedReason,
  UnlistedTally,
} from "./contract/unlisted.ts";
export { withBody } from "./contract/opened.ts";
export {
  type BytesAnswer,
  type BytesRequest,
  type Extent,
  isOtherPage,
  readExtent,
} from "./plugin/answer.ts";
export {
  type BodySteps,
  createBody,
  createBytesBody,
  createReadableBody,
  holdLastChunk,
  type ReadableBodyOptions,
  type ReadableLike,
  sliceBody,
} from "./plugin/body.ts";
export { callService, type ServiceCall, type ServiceCallOptions } from "./plugin/call.ts";
export { type ChangeFeed, createChangeFeed } from "./plugin/change-feed.ts";
export {
  type Conditions,
  ensureCondition,
  ensureWritable,
  formatIfMatch,
  asPrecondition,
  toStrongEtag,
  unlessMissing,
} from "./plugin/condition.ts";
export {
  type BackendCall,
  type BackendDefinition,
  defineBackend,
  type DefinedBackend,
} from "./plugin/define-backend.ts";
export {
  createEventOrder,
  createEventWatch,
  createPause,
  createWatches,
  type Pause,
  type Watches,
} from "./plugin/event-watch.ts";
export { beginOperation, type OperationOptions, resolveRange } from "./plugin/operation.ts";
export {
  formatCursor,
  type FoundPage,
  listPage,
  type ListRequest,
  type PageOptions,
  parseCursor,
} from "./plugin/page.ts";
export {
  createPartDriver,
  createStepPartDriver,
  type PartGrid,
  type PartOptions,
  type PartCalls,
  type StepPartOptions,
  type StepPartCalls,
  toPartGrid,
} from "./plugin/step-parts.ts";
export { isLost, publishOnce, repeaterOf } from "./plugin/repeat.ts";
export { createStepWriter, type StepDriver, type StepWriterOptions } from "./plugin/step-writer.ts";
export { createWriter, type WriteDriver, type WriterOptions } from "./plugin/writer.ts";
