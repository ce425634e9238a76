export type {
  CallOptions,
  ChangeBatch,
  Digests,
  ListOptions,
  ListPage,
  ObjectInfo,
  ObjectWriter,
  OpenedObject,
  OpenOptions,
  PresignedUrl,
  PresignOptions,
  StorageBackend,
  WatchOptions,
  WriteOptions,
} from "./contract/backend.ts";
export { encodeBlob } from "./contract/blob-text.ts";
export { type BodySteps, createBody } from "./contract/body.ts";
export { cached, type CachedOptions } from "./wrappers/cached.ts";
export { type ChangeFeed, createChangeFeed } from "./plugin/change-feed.ts";
export { formatCursor, parseCursor } from "./plugin/cursor.ts";
export { gate, type GateOptions } from "./wrappers/gate.ts";
export { guard, type GuardOptions } from "./wrappers/guard.ts";
export { checkKey, ensureKey, quoteKey } from "./contract/key.ts";
export {
  createMemoryBackend,
  type GeneratedContent,
  type MemoryBackend,
  type MemoryContent,
  type MemoryMeta,
} from "./memory/memory-backend.ts";
export { protect, type ProtectOptions } from "./wrappers/protect.ts";
export { ensureRange, resolveRange } from "./contract/range.ts";
export { settleRemoval } from "./contract/removal.ts";
export { resumable, type ResumableOptions } from "./wrappers/resumable.ts";
export { retry, type RetryOptions } from "./wrappers/retry.ts";
export { sealed } from "./wrappers/sealed.ts";
export { createUriMapper, type UriMapper } from "./contract/uri-mapper.ts";
export { verified, type VerifiedOptions } from "./wrappers/verified.ts";
export { type Overrides, wrap } from "./wrappers/wrap.ts";
export { wrongSize } from "./contract/wrong-size.ts";
