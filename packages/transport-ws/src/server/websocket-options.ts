import type { PrincipalResolver, RateLimiter } from "@sluice/server";
import type { OriginGateOptions } from "@sluice/server/internal";
import type { BinaryLimits } from "@sluice/binary-transfer/internal";
import type { MessageRate, ConnectionLimits } from "./connection-limits.ts";
import type { AuthenticationOptions } from "./authenticate.ts";

/** Options of `createWebSocketHandler`. */
export interface WebSocketHandlerOptions
  extends AuthenticationOptions, ConnectionLimits, OriginGateOptions {
  /**
   * Public URL of the endpoint, such as `wss://api.example.com/mcp`: it says which `Host` and, for
   * browsers, which `Origin` may connect. Taken from here, never from a header. `ws:` on a loopback address only.
   */
  readonly url: string;
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `url`. */
  readonly path?: string;
  /** Names the principal that `maxConnectionsPerPrincipal` counts for. Default: one for each access token. */
  readonly principal?: PrincipalResolver;
  /** Largest message that is taken, in bytes; a larger one closes with 1009. Default 256 KiB. */
  readonly maxMessageBytes?: number;
  /**
   * Bytes of messages that may wait for a peer that does not read; the next message then closes with
   * 1013. One message may be larger. Default 16 MiB.
   */
  readonly maxBufferedBytes?: number;
  /**
   * The same for all connections of one principal, and of one address where `maxConnectionsPerAddress` is set; a
   * connection whose next message does not fit closes with 1013. Default 32 MiB.
   */
  readonly maxBufferedBytesPerPrincipal?: number;
  /** The same for all connections. Default 256 MiB. */
  readonly maxBufferedBytesPerProcess?: number;
  /**
   * Number of trusted proxies in front, each of which appends to `X-Forwarded-For`: the client's address is read
   * from that many hops of the field, and from nowhere else. Default 0: the address of the socket.
   */
  readonly proxyHops?: number;
  /**
   * How fast messages are taken; faster ones wait in the peer's own send buffer. Default 100 a
   * second, and 200 at once.
   */
  readonly messageRate?: MessageRate;
  /**
   * Lets bytes go beside messages as binary frames, with clients that declare that they take them
   * (Binary Transfer RFC). Default: none; a binary frame closes with 1003.
   */
  readonly binary?: BinaryLimits;
  /**
   * Refused tickets, keyed by the client's address (IPv6 by its /64): one point each. Beyond the limit the response is
   * 429 with `Retry-After` instead of 401; a ticket that works is taken all the same. `false`: no limit. Default: 20
   * a minute, in this process.
   */
  readonly failedTickets?: RateLimiter | false;
  /** Milliseconds between pings; a peer that says nothing in between is gone. Default 30,000. */
  readonly pingIntervalMs?: number;
  /** Gets faults of the factory and of the token verifier. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}
