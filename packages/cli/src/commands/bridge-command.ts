import { checkBridgeOptions, type BridgeCommandOptions } from "../bridge/bridge-options.ts";
import { serverBehind } from "../bridge/bridged-server.ts";

/**
 * `sluice bridge`: a stdio MCP server for a host, in front of the server at a URL or of a program; with `--http`, one for
 * many hosts. Everything passes unchanged.
 */
export async function bridgeCommand(
  server: readonly string[],
  options: BridgeCommandOptions,
): Promise<void> {
  checkBridgeOptions(options);
  const behind = serverBehind(server);
  // a host starts one of these for itself: it holds no code of an HTTP server
  if (options.http) await (await import("../bridge/bridge-http.ts")).serveBridge(behind, options);
  else await (await import("../bridge/bridge-stdio.ts")).bridgeStdio(behind, options);
}
