/**
 * What the other packages of Sluice build on. Outside of the promise of versions: it changes in any release.
 * @module
 */
export { withBinary } from "./binary/with-binary.ts";
export { createFrontHandler } from "./compose/front-handler.ts";
export { createSidecar } from "./compose/create-handler.ts";
export { withSluice, type WithSluiceOptions } from "./compose/with-sluice.ts";
export { defaultMaxBodySize, readJsonBody, type ReadRequest } from "./endpoint/json-body.ts";
export { callerOfPlain } from "./endpoint/plain-route.ts";
export { addRoutes, createRoutedHandler } from "./endpoint/routed-handler.ts";
export { allowOf, createRouter, routesBelow, withRoutes } from "./endpoint/router.ts";
export { toResponse } from "./endpoint/web-response.ts";
export { markPaced } from "./events/bound-events.ts";
export { createSessions, type SessionsHandler } from "./sessions/sessions.ts";
export { createSessionMemory, type SessionMemory } from "./sessions/session-memory.ts";
