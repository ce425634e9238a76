/**
 * What packages build on that wrap a handler or add routes to one.
 * @module
 */
export { defaultMaxBodySize, readJsonBody, type ReadRequest } from "./endpoint/json-body.ts";
export { addRoutes, createRoutedHandler } from "./endpoint/routed-handler.ts";
export { createRouter, routesBelow, withRoutes } from "./endpoint/router.ts";
export { toResponse } from "./endpoint/web-response.ts";
export { markPaced } from "./events/bound-events.ts";
export { createSessionMemory, type SessionMemory } from "./sessions/session-memory.ts";
