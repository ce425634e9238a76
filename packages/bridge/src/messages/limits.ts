/** Bounds and deadlines of a bridge. */
export interface BridgeLimits {
  /** Calls of the host that may be open at the same time. Default: 1,000. */
  readonly maxOpenCalls: number;
  /** How long the bridge tries to reach a server that is away, in milliseconds. Default: 30 s. */
  readonly reconnectMs: number;
  /** Longest handshake with the server, a browser step included, in milliseconds. Default: 10 min. */
  readonly handshakeMs: number;
  /** How long a process may take to answer `server/discover` before it counts as legacy. Default: 20 s. */
  readonly probeMs: number;
  /** How long a question of the server waits for the host's answer, in milliseconds. Default: 30 min. */
  readonly askMs: number;
  /** How often one call may ask for more input (2026-07-28). Default: 10, as in the official SDKs. */
  readonly maxRounds: number;
}

/** What to do about a message that is too large. `hasSpool`: long texts go to files already. */
export function smallerAdvice(hasSpool: boolean): string {
  return hasSpool ? "ask for less" : "ask for less, or start the bridge with --save-to FOLDER";
}

/** The defaults of {@link BridgeLimits}. */
export const defaultLimits: BridgeLimits = {
  maxOpenCalls: 1_000,
  reconnectMs: 30_000,
  handshakeMs: 600_000,
  probeMs: 20_000,
  askMs: 1_800_000,
  maxRounds: 10,
};
