export {
  createInletAgents,
  leastRoomBytes,
  staleConnection,
  type InletAgents,
} from "./sockets/socket-inlet.ts";
export {
  createTunnelAgents,
  openTunnel,
  proxyFor,
  proxyOrigin,
  type TunnelEnd,
} from "./sockets/proxy.ts";
export { flowOfReadable, type ReadableFlowOptions } from "./sockets/readable-flow.ts";
export {
  isForwarded,
  ReaderWatch,
  type ReaderPace,
  type ReaderWatchOptions,
} from "./sockets/reader-watch.ts";
