export { createWebSocketHandler, type WebSocketHandler } from "./server/websocket-handler.ts";
export type { WebSocketHandlerOptions } from "./server/websocket-options.ts";
export {
  listenWebSocket,
  type ListeningWebSocket,
  type ListenWebSocketOptions,
} from "./server/listen-websocket.ts";
export {
  type AuthenticationOptions,
  createTickets,
  type Tickets,
  type TicketsOptions,
} from "./server/authenticate.ts";
export type { CloseSocketsOptions } from "./server/connections.ts";
export type { ConnectionLimits } from "./server/connection-limits.ts";
export type { MessageRate } from "./server/connection-limits.ts";
