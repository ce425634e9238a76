import { checkBridgeOptions, type BridgeCommandOptions } from "../bridge/bridge-options.ts";
import { serverBehind } from "../bridge/bridged-server.ts";
import { bridgeStart } from "../bridge/bridge-start.ts";
import { formatCommandConfig, runningFile } from "../hosts/host-config.ts";
import type { InstallTarget } from "../hosts/install-server.ts";
import { literalSecrets } from "../server-calls/headers.ts";
import { fault } from "../terminal/failure.ts";
import { note, print } from "../terminal/print.ts";

/**
 * `sluice bridge`: a stdio MCP server for a host, in front of the server at a URL or of a program; with `--http`, one for
 * many hosts. Everything passes unchanged. With `install` it is written into the configuration of a host, with `printConfig`
 * printed for all, and nothing is bridged.
 */
export async function bridgeCommand(
  server: readonly string[],
  options: BridgeCommandOptions,
  install?: InstallTarget,
): Promise<void> {
  checkBridgeOptions(options);
  const behind = serverBehind(server);
  if (install || options.printConfig) {
    if (options.http)
      throw fault("invalid_argument", "a host starts a bridge over stdio", "leave --http out");
    for (const name of literalSecrets(options.header ?? []))
      note(
        `sluice: warning: the value of ${name} is written into the configuration as it is: pass --header '${name}: \${NAME}', in single quotes, and set NAME in the environment of the host`,
      );
    const start = bridgeStart(server, options, await runningFile());
    if (!install) return print(formatCommandConfig(start));
    const { installServer } = await import("../hosts/install-server.ts");
    return installServer(install, start);
  }
  // a host starts one of these for itself: it holds no code of an HTTP server
  if (options.http) await (await import("../bridge/bridge-http.ts")).serveBridge(behind, options);
  else await (await import("../bridge/bridge-stdio.ts")).bridgeStdio(behind, options);
}
