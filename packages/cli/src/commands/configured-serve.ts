import type { Command } from "commander";
import type { InstallTarget } from "../hosts/install-server.ts";
import { loadServeConfig } from "../serve/config-file.ts";
import type { ServeCommandOptions } from "../serve/serve-options.ts";
import { fault } from "../terminal/failure.ts";
import { note, printable } from "../terminal/print.ts";
import { ensureServable, serveCommand } from "./serve-command.ts";

/** Flags of `sluice serve`, as they were read. */
export interface ServeFlags extends ServeCommandOptions {
  /** With `config`: only see whether it can be served. */
  readonly check?: boolean;
}

/**
 * `sluice serve` with its flags, and with the file of `--config` if there is one: what both say, the flags decide, and a source
 * takes the place of the mounts. `command` knows which flags were given.
 */
export async function configuredServe(
  source: string | undefined,
  { check: isCheck = false, ...flags }: ServeFlags,
  { command, install }: { readonly command: Command; readonly install: InstallTarget | undefined },
): Promise<void> {
  const { config } = flags;
  if (config === undefined) {
    if (isCheck) throw fault("invalid_argument", "--check checks a file", "name it with --config");
    if (source === undefined)
      throw fault(
        "invalid_argument",
        "missing required argument 'source'",
        "name a folder or another storage, or a file with --config",
      );
    return serveCommand(source, flags, install);
  }
  const isGiven = (name: string): boolean => {
    const origin = command.getOptionValueSource(name);
    return origin === "cli" || origin === "env";
  };
  if (flags.printConfig || install)
    throw fault(
      "invalid_argument",
      "settings for hosts name no file of --config",
      "add the URL of the running server to the host",
    );
  if (isGiven("uri") && source === undefined)
    throw fault(
      "invalid_argument",
      "--uri has no effect without a source: each mount of the file has its own",
      "leave it out, or name a source",
    );
  const flagsGiven = Object.entries(flags).filter(
    ([name, value]) => isGiven(name) && value !== undefined,
  );
  const { mounts, ...configured } = await loadServeConfig(config, process.env);
  const options: ServeCommandOptions = {
    ...flags,
    ...configured,
    ...Object.fromEntries(flagsGiven),
    ...(source === undefined ? { mounts } : {}),
  };
  const [first] = mounts;
  const servedSource = source ?? first?.source ?? "";
  if (!isCheck) return serveCommand(servedSource, options);
  await ensureServable(servedSource, options);
  note(`${printable(config)} is valid`);
}
