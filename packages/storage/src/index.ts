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
} from "./lib/backend.ts";
export { encodeBlob } from "./lib/blob-text.ts";
export { type BodySteps, createBody } from "./lib/body.ts";
export { cached, type CachedOptions } from "./lib/cached.ts";
export { type ChangeFeed, createChangeFeed } from "./lib/change-feed.ts";
export { type Clock, sleep, systemClock } from "./lib/clock.ts";
export { formatCursor, parseCursor } from "./lib/cursor.ts";
export { type Deadline, within } from "./lib/deadline.ts";
export { gate, type GateOptions } from "./lib/gate.ts";
export { guard, type GuardOptions } from "./lib/guard.ts";
export { checkKey, ensureKey, quoteKey } from "./lib/key.ts";
export {
  createMemoryBackend,
  type GeneratedContent,
  type MemoryBackend,
  type MemoryContent,
  type MemoryMeta,
} from "./lib/memory-backend.ts";
export { protect, type ProtectOptions } from "./lib/protect.ts";
export { ensureRange, resolveRange } from "./lib/range.ts";
export { settleRemoval } from "./lib/removal.ts";
export { resumable, type ResumableOptions } from "./lib/resumable.ts";
export { retry, type RetryOptions } from "./lib/retry.ts";
export { sealed } from "./lib/sealed.ts";
export { createUriMapper, type UriMapper } from "./lib/uri-mapper.ts";
export { verified, type VerifiedOptions } from "./lib/verified.ts";
export { type Overrides, wrap } from "./lib/wrap.ts";
export { wrongSize } from "./lib/wrong-size.ts";
