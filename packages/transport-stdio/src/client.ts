import {
  StdioClientTransport,
  type StdioClientTransportOptions,
} from "./channel/client-transport.ts";

export { type StdioClientTransport, type StdioClientTransportOptions };
export type { StdioLimits } from "./channel/stdio-channel.ts";

/**
 * A transport for the `Client` of the MCP SDK, version 1 or 2, that runs a server as a child process.
 * It declares binary transfer; a server that does not know it is spoken to in lines of JSON as ever.
 */
export function createStdioClientTransport(
  options: StdioClientTransportOptions,
): StdioClientTransport {
  return new StdioClientTransport(options);
}
