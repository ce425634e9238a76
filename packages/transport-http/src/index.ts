export { createSidecar } from "./compose/compose-handler.ts";
export { withBinary, type WithBinaryOptions } from "./binary/with-binary.ts";
export { createSessions, type SessionsHandler, type SessionsOptions } from "./sessions/sessions.ts";
export { composeHandler, type HandlerParts } from "./compose/compose-handler.ts";
export { withSluice, type WithSluiceOptions } from "./compose/with-sluice.ts";
export type { McpFetchHandler, SluiceHandler } from "./endpoint/sluice-handler.ts";
export type {
  CorsTerms,
  EndpointOptions,
  EndpointRouter,
  Route,
  Routes,
} from "./endpoint/router.ts";
export { createFrontHandler } from "./compose/front-handler.ts";
export type { PlainRequest, RequestBody, TakeChunk } from "./endpoint/plain-route.ts";
export type { OriginGateOptions } from "@sluice/server/transport";
