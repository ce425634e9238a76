// declarations here replace the portable export of the same name
export * from "./index.ts";
export { createStreaming } from "./calls/node-streaming.ts";
export { saveResource, streamResource } from "./save/savable-stream.ts";
export { saveTree } from "./tree/save-tree.ts";
