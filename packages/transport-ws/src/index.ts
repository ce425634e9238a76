export {
  createWebSocketHandler,
  type WebSocketHandler,
  type WebSocketHandlerOptions,
} from "./lib/websocket-handler.ts";
export {
  listenWebSocket,
  type ListeningWebSocket,
  type ListenWebSocketOptions,
} from "./lib/listen-websocket.ts";
export { createTickets, type Tickets, type TicketsOptions } from "./lib/tickets.ts";
export type { AuthenticationOptions } from "./lib/authenticate.ts";
export type { CloseOptions } from "./lib/connections.ts";
export type { ConnectionLimits } from "./lib/places.ts";
export type { MessageRate } from "./lib/message-rate.ts";
