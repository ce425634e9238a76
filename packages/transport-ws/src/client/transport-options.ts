import type { BinaryOptions } from "../binary/binary-channel.ts";
import type { ReconnectOptions } from "./backoff.ts";

/** How a client transport behaves over any kind of socket. */
export interface ClientTransportOptions {
  /** Milliseconds for a connection to be there, credentials and handshake included. Default 10,000. */
  readonly connectMs?: number;
  /**
   * What to do when the connection breaks: connect again after a random pause, or with `false`
   * close. Requests that wait for an answer are rejected at once either way
   * (`isConnectionLost`), and never sent again.
   */
  readonly reconnect?: ReconnectOptions | false;
  /** Bytes that may wait to be sent; more is rejected with `throttled`. Default 16 MiB. */
  readonly maxBufferedBytes?: number;
  /**
   * Lets bytes go beside messages as binary frames, with servers that declare that they take them
   * (Binary Transfer RFC). Default: none.
   */
  readonly binary?: BinaryOptions;
  /** Called when a new connection stands in for a broken one. Legacy subscriptions are to be made again. */
  readonly onReconnect?: () => void;
}
