export { SluiceError, type FetchLike, type SluiceErrorCode } from "@sluice/core";
export type { DeliveryMode } from "@sluice/core/internal";
export type { RequestingClient } from "./calls/stream-calls.ts";
export type { StreamingCapabilities, StreamingExtension } from "./calls/stream-calls.ts";
export { createStreaming, type Streaming, type StreamingOptions } from "./calls/streaming.ts";
export type { ResourceStream } from "./download/resource-stream.ts";
export type { SavedFile, SaveOptions, SaveResourceOptions } from "./download/save-options.ts";
export type {
  Consent,
  StreamFacts,
  StreamOptions,
  TransferCount,
  TransferScale,
  TransferTimeouts,
} from "./download/stream-options.ts";
export { saveResource, streamResource } from "./download/stream-resource.ts";
export { saveTree } from "./tree/portable-tree.ts";
export type {
  FailedTreeFile,
  SavedTree,
  SavedTreeFile,
  SaveTree,
  SaveTreeOptions,
  TreeFile,
} from "./tree/tree-options.ts";
export type { PeerTimeouts } from "./net/timeouts.ts";
