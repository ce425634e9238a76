export { createSidecar } from "./lib/sidecar.ts";
export { withBinary, type WithBinaryOptions } from "./lib/with-binary.ts";
export { createSessions, type SessionsHandler, type SessionsOptions } from "./lib/sessions.ts";
export { withSluice, type WithSluiceOptions } from "./lib/with-sluice.ts";
export type { McpFetchHandler, SluiceHandler } from "./lib/sluice-handler.ts";
export type { CorsTerms, Door, Route, Routes } from "./lib/door.ts";
export { addRoutes } from "./lib/routed-handler.ts";
export type { PlainRequest, RequestBody, TakeChunk } from "./lib/plain-route.ts";
export type { OriginGateOptions } from "@sluice/server";
