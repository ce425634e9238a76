export { createInletAgents, leastRoomBytes, type InletAgents } from "./sockets/socket-inlet.ts";
export { flowOfReadable, type ReadableFlowOptions } from "./sockets/readable-flow.ts";
export {
  isForwarded,
  ReaderWatch,
  type ReaderPace,
  type ReaderWatchOptions,
} from "./sockets/reader-watch.ts";
