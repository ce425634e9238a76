export { checkKey, ensureKey, quoteKey } from "./contract/key.ts";
export { encodeBlob } from "./plugin/blob-text.ts";
export { type BodySteps, createBody } from "./plugin/body.ts";
export { type ChangeFeed, createChangeFeed } from "./plugin/change-feed.ts";
export { formatCursor, parseCursor } from "./plugin/cursor.ts";
export { holdLastChunk } from "./plugin/hold-last-chunk.ts";
export { ensureRange, resolveRange } from "./plugin/range.ts";
export { settleRemoval } from "./plugin/removal.ts";
export { wrongSize } from "./plugin/wrong-size.ts";
