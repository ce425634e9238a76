export {
  createHandler,
  type CloseOptions,
  type CreateServer,
  type Handler,
  type HandlerOptions,
  type HandlerParts,
  type ResumeLayer,
  type UploadsLayer,
} from "./compose/create-handler.ts";
export type { BinaryOptions } from "./binary/with-binary.ts";
export type { FilesPageOptions } from "./page/files-page.ts";
export type { SessionsOptions } from "./sessions/sessions.ts";
export type { McpFetchHandler, SluiceHandler } from "./endpoint/sluice-handler.ts";
export type {
  CorsTerms,
  EndpointOptions,
  EndpointRouter,
  Route,
  Routes,
} from "./endpoint/router.ts";
export type { PlainRequest, RequestBody, TakeChunk } from "./endpoint/plain-route.ts";
export type { OriginGateOptions } from "@sluice/server/internal";
