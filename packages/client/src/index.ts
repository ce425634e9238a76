export { SluiceError, type SluiceErrorCode } from "@sluice/core";
export type { ClientStreaming, DeliveryMode } from "@sluice/core/wire";
export {
  acceptUrl,
  ensureTrustedOrigins,
  type AcceptedUrl,
  type UrlPolicy,
} from "./trust/accept-url.ts";
export { classifyAddress, type AddressClass } from "./trust/classify-address.ts";
export { formatScale, scaleOf, type Consent, type TransferScale } from "./trust/consent.ts";
export type { FetchLike } from "@sluice/core";
export type { StreamingClient } from "./download/permit.ts";
export type {
  CachedResource,
  ResourceCache,
  ResourceCacheOptions,
} from "./cache/resource-cache.ts";
export type { StreamOptions, TransferCount, TransferTimeouts } from "./download/stream-options.ts";
export {
  streamingCapabilities,
  type StreamingCapabilities,
  type StreamingExtension,
} from "./calls/streaming-capabilities.ts";
export {
  createResourceCache,
  streamResource,
  type ResourceStream,
  type StreamFacts,
} from "./download/stream-resource.ts";
export { withDownloads, type DownloadSide, type SendingTransport } from "./calls/with-downloads.ts";
export { withStreaming } from "./calls/with-streaming.ts";
