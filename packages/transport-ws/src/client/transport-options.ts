import type { BinaryLimits } from "@sluice/binary-transfer/internal";

/** When and how often to connect again. */
export interface ReconnectOptions {
  /**
   * Tries in a row before the transport gives up and closes; 8. A connection that brought a message, or
   * lasted longer than `maxMs`, ends the row.
   */
  readonly maxAttempts?: number;
  /** Longest first pause in milliseconds; 500. It doubles with each try. */
  readonly baseMs?: number;
  /**
   * Longest pause of all in milliseconds; 30,000. A `Retry-After` of the server comes in addition; one over
   * 60 s ends the tries.
   */
  readonly maxMs?: number;
}

/** How a client transport behaves over any kind of socket. */
export interface ClientTransportOptions {
  /** Milliseconds for a connection to be there, credentials and handshake included. Default 10,000. */
  readonly connectMs?: number;
  /**
   * Base URL of the server's HTTP side, where its downloads are: bytes are taken from its origin, and `token`
   * goes there. Default: the origin of `url`, as `https:` for `wss:`.
   */
  readonly downloads?: string | URL;
  /**
   * What to do when the connection breaks: connect again after a random pause, or with `false`
   * close. Requests that wait for a response are rejected at once either way
   * (`isConnectionLost`), and never sent again.
   */
  readonly reconnect?: ReconnectOptions | false;
  /** Bytes that may wait to be sent; more is rejected with `throttled`. Default 16 MiB. */
  readonly maxBufferedBytes?: number;
  /**
   * Lets bytes go beside messages as binary frames, with servers that declare that they take them
   * (Binary Transfer RFC). Default: none.
   */
  readonly binary?: BinaryLimits;
  /** Called when a new connection stands in for a broken one. Legacy subscriptions are to be made again. */
  readonly onReconnect?: () => void;
}
