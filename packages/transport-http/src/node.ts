export {
  toNodeHandler,
  type NodeHandler,
  type NodeHandlerOptions,
  type NodeRequest,
} from "./lib/node-handler.ts";
export type { OffloadOptions } from "./lib/offload.ts";
export type { OutflowOptions } from "./lib/outflow.ts";
export { hardenServer, type HardenServerOptions } from "./lib/harden-server.ts";
export { drainServer, type Drained, type DrainOptions } from "./lib/drain-server.ts";
