export { serve, type ServeOptions, type Serving } from "./node/serve.ts";
export { toNodeHandler, type NodeHandler, type NodeHandlerOptions } from "./node/node-handler.ts";
export type { NodeRequest } from "./node/incoming-request.ts";
export type { OffloadOptions } from "./download/offload.ts";
export type { OutflowOptions } from "./download/outflow.ts";
export { hardenServer, type HardenServerOptions } from "./node/harden-server.ts";
export { drainServer, type Drained, type DrainOptions } from "./node/drain-server.ts";
