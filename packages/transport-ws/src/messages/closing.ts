import { SluiceError } from "@sluice/core";
import type { MessageFault } from "@sluice/core/internal";

/** Why a connection is ended: a close code (RFC 6455 §7.4.1) and a few words for the peer's log. */
export interface Closing {
  readonly code: number;
  readonly reason: string;
}

/**
 * Every close that Sluice sends. `ws` itself sends 1002 (frames against RFC 6455), 1007 (text that
 * is not UTF-8) and 1009 (a message over the limit).
 */
export const closings = {
  done: { code: 1000, reason: "" },
  goingAway: { code: 1001, reason: "server is going away" },
  binary: { code: 1003, reason: "binary frames were not negotiated" },
  notJson: { code: 1007, reason: "not JSON" },
  notJsonRpc: { code: 1008, reason: "not a JSON-RPC message" },
  expired: { code: 1008, reason: "access token expired" },
  fault: { code: 1011, reason: "internal error" },
  restart: { code: 1012, reason: "server restarts" },
  slow: { code: 1013, reason: "messages are not read" },
} as const;

/** How a connection ends on an invalid message. */
export function closingOf({ code }: MessageFault): Closing {
  return code === -32_700 ? closings.notJson : closings.notJsonRpc;
}

/** The error of a connection that the peer, or the network, ended. It quotes visible ASCII alone. */
export function brokenBy(code: number, reason: string): SluiceError {
  const words = /^[\x20-\x7e]+$/.test(reason) ? ` (${reason})` : "";
  return new SluiceError("interrupted", `ws: the connection ended with ${code}${words}`);
}

/** Name of the subprotocol (RFC 6455 §1.9): JSON-RPC messages of MCP, each a text frame. */
export const SUBPROTOCOL = "mcp";

/** Browsers can set no header but this one: a ticket comes as a second subprotocol, which is never selected. */
const ticketPrefix = "mcp.ticket.";

/** The offer of a client. */
export function offeredProtocols(ticket: string | undefined): string[] {
  return ticket === undefined ? [SUBPROTOCOL] : [SUBPROTOCOL, `${ticketPrefix}${ticket}`];
}

/** A parsed offer: whether the client speaks MCP, and its ticket. */
export function readProtocols(header: string | undefined): {
  readonly isMcp: boolean;
  readonly ticket: string | undefined;
} {
  const offered = (header ?? "").split(",").map((each) => each.trim());
  const ticket = offered.find((each) => each.startsWith(ticketPrefix));
  return { isMcp: offered.includes(SUBPROTOCOL), ticket: ticket?.slice(ticketPrefix.length) };
}
