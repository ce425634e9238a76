export { SluiceError, type SluiceErrorCode } from "@sluice/core";
export type { ClientStreaming, DeliveryMode } from "@sluice/core/wire";
export {
  acceptUrl,
  ensureTrustedOrigins,
  type AcceptedUrl,
  type UrlPolicy,
} from "./lib/accept-url.ts";
export { classifyAddress, type AddressClass } from "./lib/classify-address.ts";
export { formatScale, scaleOf, type Consent, type TransferScale } from "./lib/consent.ts";
export type { FetchLike } from "./lib/fetch-exchange.ts";
export type { StreamingClient } from "./lib/permit.ts";
export type { CachedResource, ResourceCache, ResourceCacheOptions } from "./lib/resource-cache.ts";
export type { StreamOptions, TransferCount, TransferTimeouts } from "./lib/stream-options.ts";
export {
  streamingCapabilities,
  type StreamingCapabilities,
  type StreamingExtension,
} from "./lib/streaming-capabilities.ts";
export {
  createResourceCache,
  streamResource,
  type ResourceStream,
  type StreamFacts,
} from "./lib/stream-resource.ts";
export { withDownloads, type DownloadSide, type SendingTransport } from "./lib/with-downloads.ts";
export { withStreaming } from "./lib/with-streaming.ts";
