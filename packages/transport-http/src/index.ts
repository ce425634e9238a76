export { createSidecar } from "./lib/sidecar.ts";
export {
  withSluice,
  type McpFetchHandler,
  type SluiceHandler,
  type WithSluiceOptions,
} from "./lib/with-sluice.ts";
export type { DownloadRoute, PlainRequest } from "./lib/download-route.ts";
export type { OriginGateOptions } from "@sluice/server";
