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
