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
export { createUriMapper, type UriMapper } from "./contract/uri-mapper.ts";
export {
  createMemoryBackend,
  type GeneratedContent,
  type MemoryBackend,
  type MemoryContent,
  type MemoryMeta,
} from "./memory/memory-backend.ts";
export { cached, type CachedOptions } from "./wrappers/cached.ts";
export { protect, type ProtectOptions } from "./wrappers/protect.ts";
export { resumable, type ResumableOptions } from "./wrappers/resumable.ts";
export { retry, type RetryOptions } from "./wrappers/retry.ts";
export { throttle, type ThrottleOptions } from "./wrappers/throttle.ts";
export { validate, type ValidateOptions } from "./wrappers/validate.ts";
export { verifyDigest, type VerifyDigestOptions } from "./wrappers/verify-digest.ts";
export { type Overrides, wrap } from "./wrappers/wrap.ts";
