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
  StepEnd,
  StepOptions,
  StepWriter,
  StorageBackend,
  WatchOptions,
  WritableBackend,
  Repeat,
  WriteOptions,
} from "./contract/backend.ts";
export type { UnlistedCounts, UnlistedReason } from "./contract/unlisted.ts";
export { createUriMapper, type UriMapper } from "./contract/uri-mapper.ts";
export {
  createMemoryBackend,
  type GeneratedContent,
  type MemoryBackend,
  type MemoryContent,
  type MemoryMeta,
} from "./memory/memory-backend.ts";
export { type CacheOptions, withCache } from "./wrappers/with-cache.ts";
export { protect, type ProtectOptions } from "./wrappers/protect.ts";
export { type Overrides, wrapBackend } from "./wrappers/wrap.ts";
