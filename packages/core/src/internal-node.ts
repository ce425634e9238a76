/**
 * What the other packages of Sluice build on in Node.js. Outside of the promise of versions: it changes in any release.
 * @module
 */
export {
  bareHost,
  hasServerRules,
  placeOf,
  portOf,
  ruledOptions,
  setServerRules,
  type ServerRules,
} from "./sockets/server-rules.ts";
export {
  createTunnelAgents,
  openTunnel,
  proxyFor,
  proxyOrigin,
  type TunnelEnd,
} from "./sockets/proxy.ts";
export {
  isForwarded,
  ReaderWatch,
  type ReaderPace,
  type ReaderWatchOptions,
} from "./sockets/reader-watch.ts";
export { minRoomBytes, staleConnection } from "./sockets/socket-inlet.ts";
export { completeHandle, openHandle } from "./files/open-handle.ts";
