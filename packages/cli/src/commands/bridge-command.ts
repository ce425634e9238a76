import { serveBridge } from "../bridge/bridge-http.ts";
import { checkBridgeOptions, type BridgeCommandOptions } from "../bridge/bridge-options.ts";
import { bridgeStdio } from "../bridge/bridge-stdio.ts";
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
  await (options.http ? serveBridge(behind, options) : bridgeStdio(behind, options));
}
