export { SluiceError, type FetchLike, type SluiceErrorCode } from "@sluice/core";
export type { ClientStreaming, DeliveryMode } from "@sluice/core/internal";
export {
  acceptUrl,
  ensureTrustedOrigins,
  type AcceptedUrl,
  type UrlHop,
  type UrlPolicy,
} from "./trust/accept-url.ts";
export { formatScale, scaleOf } from "./download/consent.ts";
export { type Consent, type TransferScale } from "./download/stream-options.ts";
export type { RequestingClient } from "./calls/stream-calls.ts";
export type {
  CachedResource,
  ResourceCache,
  ResourceCacheOptions,
} from "./download/resource-cache.ts";
export type { StreamOptions, TransferCount } from "./download/stream-options.ts";
export type { TransferTimeouts } from "./download/stream-options.ts";
export type { PeerTimeouts } from "./net/timeouts.ts";
export {
  streamingCapabilities,
  type StreamingCapabilities,
  type StreamingExtension,
} from "./calls/stream-calls.ts";
export type { ResourceStream, StreamFacts } from "./download/stream-options.ts";
export { createResourceCache, streamResource } from "./download/stream-resource.ts";
export { withDownloads, type DownloadSide, type SendingTransport } from "./calls/with-downloads.ts";
export { withStreaming } from "./calls/with-streaming.ts";
