import type { ClientLimits, PrincipalResolver, RateLimiter, Sluice } from "@sluice/server";
import type { OriginGateOptions } from "@sluice/server/internal";
import type { BinaryLimits } from "@sluice/binary-transfer/internal";
import type { MessageRate } from "./connection-limits.ts";
import type { AuthenticationOptions } from "./authenticate.ts";

/** Options of `createWebSocketHandler`. */
export interface WebSocketHandlerOptions extends AuthenticationOptions, OriginGateOptions {
  /**
   * Public URL of the endpoint, such as `wss://api.example.com/mcp`: it says which `Host` and, for
   * browsers, which `Origin` may connect. Taken from here, never from a header. `ws:` on a loopback address only.
   */
  readonly url: string;
  /** Path of the endpoint as this process sees it, when a proxy in front changes it. Default: that of `url`. */
  readonly path?: string;
  /**
   * The Sluice of the servers: its `clientAddress` says how addresses of clients are found. Default: none, and the address is that
   * of the socket, which is the proxy's behind one.
   */
  readonly sluice?: Pick<Sluice, "host">;
  /** Names the principal of `perPrincipal`. Default: one for each access token. */
  readonly principal?: PrincipalResolver;
  /**
   * Maximum connections at once; more of a principal or of an address are refused with 429, more of this handler with 503.
   * Default: 16 of one principal and 2,000; no limit for addresses, for behind a proxy all may have one.
   */
  readonly connections?: ClientLimits;
  /** Largest message that is taken, in bytes; a larger one closes with 1009. Default 256 KiB. */
  readonly maxMessageBytes?: number;
  /**
   * Bytes of messages that may wait for a peer that does not read; the next message then closes with
   * 1013. One message may be larger. Default 16 MiB.
   */
  readonly maxBufferedBytes?: number;
  /**
   * The same for all connections of a client, and of this handler; a connection whose next message does not fit closes with
   * 1013. Addresses count where `connections` limits them. Default: 32 MiB, 32 MiB and 256 MiB.
   */
  readonly bufferedBytes?: ClientLimits;
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
  /** Gets faults of the factory, of the token verifier, and of a connection's first messages. Default: `console.error`. */
  readonly onError?: (error: unknown) => void;
}
