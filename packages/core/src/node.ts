// for storage plugins that read responses of Node's HTTP client
export { createInletAgents, type InletAgents } from "./sockets/socket-inlet.ts";
export { flowOfReadable, type ReadableFlowOptions } from "./sockets/readable-flow.ts";
