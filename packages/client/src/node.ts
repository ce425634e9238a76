export { streamingCapabilities } from "./lib/streaming-capabilities.ts";
export { createResourceCache, streamResource, type SavableStream } from "./lib/node-stream.ts";
export { withDownloads, withStreaming } from "./lib/node-streaming.ts";
export { createPublicLookup, ensurePublic } from "./lib/public-lookup.ts";
export { headersOf } from "./lib/raw-headers.ts";
export { saveBytes, type SaveBytesOptions } from "./lib/save-bytes.ts";
export type { SavedFile, SaveOptions } from "./lib/save-resource.ts";
