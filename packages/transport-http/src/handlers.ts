/**
 * What packages build on that wrap a handler or add routes to one.
 * @module
 */
export { endpointRoute } from "./endpoint/router.ts";
export { defaultMaxBodySize, readJsonBody, type ReadRequest } from "./endpoint/json-body.ts";
export { readBase } from "./endpoint/request-target.ts";
export { addRoutes, createRoutedHandler, type EndpointFetch } from "./endpoint/routed-handler.ts";
export { toResponse } from "./endpoint/web-response.ts";
export { markPaced } from "./events/bound-events.ts";
export { createSessionMemory, type SessionMemory } from "./sessions/session-memory.ts";
