import {
  StdioServerTransport,
  type StdioServerTransportOptions,
} from "./channel/server-transport.ts";

export { type StdioServerTransport, type StdioServerTransportOptions };
export type { StdioLimits } from "./channel/stdio-channel.ts";

/**
 * A transport for a server of the MCP SDK over the stdin and stdout of this process: pass it to
 * `serveStdio(factory, { transport })` of version 2, which serves both protocol revisions, or to `connect`.
 * Messages are lines of JSON for every client; one that declared binary transfer gets bytes beside
 * them. Write nothing else to stdout.
 */
export function createStdioServerTransport(
  options: StdioServerTransportOptions = {},
): StdioServerTransport {
  return new StdioServerTransport(options);
}
