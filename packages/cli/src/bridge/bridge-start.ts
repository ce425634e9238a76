import { resolve } from "node:path";
import { startCommandOf, type StartCommand } from "../hosts/host-config.ts";
import type { BridgeCommandOptions } from "./bridge-options.ts";

/**
 * The command that starts a bridge with these options from any folder: every path is whole. It has no token: a host gives that in
 * the environment, as `SLUICE_TOKEN`.
 */
export function bridgeStart(
  server: readonly string[],
  options: BridgeCommandOptions,
  file: string | undefined,
): StartCommand {
  const { command, args } = startCommandOf(file);
  const { browser, spool, saveTo, inline, maxSave, maxTotal, forgetSaved, maxStep } = options;
  type Value = string | number | undefined;
  const values: Readonly<Record<string, Value | readonly Value[]>> = {
    header: options.header,
    cacert: wholePath(options.cacert),
    cert: wholePath(options.cert),
    key: wholePath(options.key),
    resolve: options.resolve?.map(
      ({ host, port, addresses }) => `${host}:${port}:${addresses.join(",")}`,
    ),
    "save-to": wholePath(saveTo),
    "send-from": options.sendFrom?.map((folder) => resolve(folder)),
    inline,
    "max-save": maxSave,
    "max-total": maxTotal,
    "forget-saved": forgetSaved,
    trust: options.trust,
    "max-step": maxStep,
    "yes-below": options.yesBelow,
  };
  const words = Object.entries(values).flatMap(([option, value]) =>
    [value].flat().flatMap((each) => (each === undefined ? [] : [`--${option}`, String(each)])),
  );
  if (!browser) words.push("--no-browser");
  if (!spool) words.push("--no-spool");
  const [first = ""] = server;
  const target = server.length === 1 && URL.canParse(first) ? [first] : ["--", ...server];
  return { command, args: [...args, "bridge", ...words, ...target] };
}

function wholePath(path: string | undefined): string | undefined {
  return path === undefined ? undefined : resolve(path);
}
