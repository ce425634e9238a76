export { createWebSocketHandler, type WebSocketHandler } from "./server/websocket-handler.ts";
export type { WebSocketHandlerOptions } from "./server/websocket-options.ts";
export {
  listenWebSocket,
  type ListeningWebSocket,
  type ListenWebSocketOptions,
} from "./server/listen-websocket.ts";
export { createTickets, type Tickets, type TicketsOptions } from "./server/tickets.ts";
export type { AuthenticationOptions } from "./server/authenticate.ts";
export type { CloseSocketsOptions } from "./server/connections.ts";
export type { ConnectionLimits } from "./server/connection-limits.ts";
export type { MessageRate } from "./server/connection-limits.ts";
