export { createSidecar } from "./lib/sidecar.ts";
export { withBinary, type WithBinaryOptions } from "./lib/with-binary.ts";
export {
  withSluice,
  type McpFetchHandler,
  type SluiceHandler,
  type WithSluiceOptions,
} from "./lib/with-sluice.ts";
export type { PlainRequest, PlainRoute, RequestBody, TakeChunk } from "./lib/plain-route.ts";
export { answerPlainly } from "./lib/web-request.ts";
export type { OriginGateOptions } from "@sluice/server";
