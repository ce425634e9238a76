// declarations here replace the portable export of the same name
export * from "./index.ts";
export { createResourceCache, streamResource, type SavableStream } from "./save/savable-stream.ts";
export { withDownloads, withStreaming } from "./calls/node-streaming.ts";
export { createPublicLookup, ensurePublic } from "./net/node/http-exchange.ts";
export { randomPartName, writerOfPart } from "./save/part-name.ts";
export { saveFile } from "./save/save-file.ts";
export { saveBytes, type SaveBytesOptions } from "./save/save-file.ts";
export type { SavedFile, SaveOptions } from "./save/save-resource.ts";
export { streamLink, type LinkOptions } from "./save/savable-stream.ts";
