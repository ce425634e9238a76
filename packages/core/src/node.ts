export {
  createInletAgents,
  leastRoomBytes,
  staleConnection,
  type InletAgents,
} from "./sockets/socket-inlet.ts";
export { flowOfReadable, type ReadableFlowOptions } from "./sockets/readable-flow.ts";
