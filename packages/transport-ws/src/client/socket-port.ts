import type { Closing } from "../messages/closing.ts";

/** An open WebSocket, whatever implements it. */
export interface SocketPort {
  send(text: string): void;
  /** Resolves when the network took the frame, which may be changed then. Rejects when the connection is gone. */
  sendBinary(frame: Uint8Array): Promise<void>;
  /** Stops reading, until `resume`. Absent if the platform cannot. */
  pause?(): void;
  resume?(): void;
  /** Ends the connection. `closed` follows in any case, soon. */
  close(closing: Closing): void;
  /** Bytes that were not handed to the network yet. */
  readonly bufferedAmount: number;
  /** IP address of the peer, where the platform tells. */
  readonly address?: string | undefined;
}

interface SocketEvents {
  text(data: string): void;
  /** The bytes are the listener's from now on. */
  binary(data: Uint8Array): void;
  /** The end; nothing follows. */
  closed(code: number, reason: string): void;
}

/**
 * Opens a WebSocket with the `mcp` subprotocol. Rejects with `unauthenticated`, `permission_denied`,
 * `throttled`, `unavailable`, `not_found`, `protocol`, or with `signal.reason`. After that there are no events.
 */
export type OpenSocket = (events: SocketEvents, signal: AbortSignal) => Promise<SocketPort>;
