export { streamingCapabilities } from "./calls/streaming-capabilities.ts";
export { createResourceCache, streamResource, type SavableStream } from "./calls/node-stream.ts";
export { withDownloads, withStreaming } from "./calls/node-streaming.ts";
export { createPublicLookup, ensurePublic } from "./net/public-lookup.ts";
export { headersOf } from "./net/raw-headers.ts";
export { saveBytes, type SaveBytesOptions } from "./save/save-bytes.ts";
export type { SavedFile, SaveOptions } from "./save/save-resource.ts";
