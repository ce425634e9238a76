import { Argument, Command, Option } from "commander";
import { hostNames, type HostName } from "../hosts/host-files.ts";
import type { InstallTarget } from "../hosts/install-server.ts";
import { formatExitCodes } from "../terminal/exit-code.ts";
import type { BridgeCommandOptions } from "../bridge/bridge-options.ts";
import type { ServeFlags } from "./configured-serve.ts";
import {
  collect,
  originOf,
  sizeInBytes,
  stepInBytes,
  stepText,
  networkOptions,
  tokenOption,
  wholeNumber,
  readToken,
  serverName,
} from "./option-values.ts";
import { completionScript, type Shell, shells } from "../terminal/completion.ts";
import { addOperatorCommands } from "./operator-commands.ts";
import { addServerCommands, type CommandParts } from "./server-commands.ts";
import { serveLimitsText } from "../serve/serve-limits.ts";
import { version } from "../terminal/print.ts";

/**
 * The command line: what there is to type, and what it runs. `signal` ends the run. Each command is
 * loaded when it is run: a server's code would make every download begin later. With `install` the command of a server is
 * written into the configuration of a host, and not run.
 */
export function commandLine(signal: AbortSignal, install?: InstallTarget): Command {
  /** A command's code. A signal that came while it was loaded ends the run before anything begins. */
  async function load<Code>(command: Promise<Code>): Promise<Code> {
    const code = await command;
    signal.throwIfAborted();
    return code;
  }
  const runOptions: CommandParts["runOptions"] = (options) => ({
    ...options,
    token: readToken(options.token),
    signal,
  });

  const program = new Command("sluice")
    .description(
      "Transfer any file between MCP servers and any host: serve a folder, list, download, upload.",
    )
    .version(version)
    .addHelpText("after", `\n${examples}\n\nExit codes:\n${formatExitCodes()}`);

  program
    .command("serve")
    .description("serve a folder, bucket, container or drive as an MCP server")
    .argument(
      "[source]",
      "folder, s3://bucket/prefix, azblob://container/prefix or graph://driveId/path",
    )
    .option("--config <file>", "take mounts, users and settings from this file; flags win")
    .option("--check", "with --config: check the file and exit")
    .option("--stdio", "speak MCP over stdin and stdout, for hosts that run a command")
    .option("--host <address>", "address to listen on", "127.0.0.1")
    .option(
      "--port <number>",
      "port to listen on; 0 picks a free one; default: 2532, with --stdio a free one",
      wholeNumber(0, 65_535),
    )
    .option("--uri <base>", "base of the resource URIs", "files://local/")
    .addOption(tokenOption("token that every request must carry"))
    .option("--public-url <url>", "https URL of the endpoint, if it is behind a proxy")
    .option("--tls-cert <file>", "certificate to speak TLS with, in PEM, with its chain")
    .option("--tls-key <file>", "key of this certificate, in PEM")
    .option("--allow-anonymous", "let other machines in without a token")
    .option("--origin <origin>", originText, originOf)
    .option(
      "--audit <file>",
      "record everything there; default: a file for each address in the state folder. Without a record, nothing is sent",
    )
    .option("--no-audit", "keep no record")
    .option("--keys <file>", "seal URLs with the keys of this file; rotation needs no restart")
    .option("--ws", "accept WebSockets at the same address")
    .option("--no-tools", "omit the tools that list, read and link files")
    .option(
      "--append-only <ending>",
      "ending of append-only files; a download ends where the file did at its start; default: .log; may be repeated",
      collect,
    )
    .option(
      "--save-to <folder>",
      "let models save files into this folder, with the tool save_to; created if missing",
    )
    .option("--max-total <size>", "max total size of files saved there; default: 100G", sizeInBytes)
    .option("--uploads <folder>", "let clients put files into this folder; created if missing")
    .option(
      "--max-upload <size>",
      "largest upload to accept: 500M, 20G, …; default: 1G",
      sizeInBytes,
    )
    .option(
      "--max-step <size>",
      "max size of one request of an upload, if a proxy in front limits it: 1M, 64M, …",
      stepInBytes,
    )
    .option("--print-config", "print configuration for MCP hosts and exit")
    .addHelpText("after", `\n${serveLimitsText}\n${serveExamples}`)
    .action(
      async (source: string | undefined, options: Omit<ServeFlags, "signal">, command: Command) => {
        const { configuredServe } = await load(import("./configured-serve.ts"));
        await configuredServe(source, runOptions(options), { command, install });
      },
    );

  const bridge = program
    .command("bridge")
    .description("bridge hosts to a server, as a stdio MCP server or over HTTP")
    .argument("<server...>", "URL of an MCP endpoint, or -- and the command of a stdio server")
    .option("--http", "serve hosts over HTTP, for the operator of the server")
    .option("--host <address>", "with --http: address to listen on; default: 127.0.0.1")
    .option(
      "--port <number>",
      "with --http: port to listen on; 0 picks a free one; default: 2532",
      wholeNumber(0, 65_535),
    )
    .option("--public-url <url>", "with --http: https URL of the endpoint, if it is behind a proxy")
    .option("--allow-anonymous", "with --http: let other machines in without a token")
    .option("--origin <origin>", `with --http: ${originText}`, originOf)
    .option(
      "--results-to <place>",
      "with --http: store large results in a folder, s3:, azblob: or graph:, until the bridge exits; default: memory",
    )
    .option(
      "--max-held <size>",
      "with --http: max total size of these results; default: 256M in memory, 10G elsewhere",
      sizeInBytes,
    )
    .option(
      "--header <line>",
      "header of every request to the server, as 'Name: value'; ${NAME} is from the environment; may be repeated",
      collect,
    )
    .option("--no-browser", "do not sign in if the server asks for it")
    .option(
      "--save-to <folder>",
      "let models save files and large results into this folder; created if missing",
    )
    .option(
      "--send-from <folder>",
      "let models send files from this folder, which must exist; may be repeated",
      collect,
    )
    .option("--inline <size>", "longest text or blob to keep inline; default: 64K", sizeInBytes)
    .option("--no-spool", "leave large results as they are")
    .option(
      "--max-save <size>",
      "largest file to save: 500M, 20G, …; default: what has room",
      sizeInBytes,
    )
    .option("--max-total <size>", "max total size of files saved there; default: 100G", sizeInBytes)
    .option(
      "--forget-saved <days>",
      "remove unmodified saved files after this many days; default: never",
      wholeNumber(1, 36_500),
    )
    .option(
      "--trust <origin>",
      "origin that bytes may come from and go to besides the server's own; may be repeated",
      collect,
    )
    .option("--max-step <size>", stepText, stepInBytes)
    .option(
      "--yes-below <size>",
      "do not ask about files up to this size; default: 1G, but ask for any sent in a message",
      sizeInBytes,
    )
    .addOption(
      new Option("--server-token <token>", "token for the server").env("SLUICE_SERVER_TOKEN"),
    )
    .addOption(tokenOption("the same; with --http: token that every request of a host must carry"))
    .option("--print-config", "print configuration for MCP hosts and exit");
  for (const option of networkOptions()) bridge.addOption(option);
  bridge.action(async (server: string[], options: Omit<BridgeCommandOptions, "signal">) => {
    const { bridgeCommand } = await load(import("./bridge-command.ts"));
    const serverToken = readToken(options.serverToken);
    await bridgeCommand(server, { ...runOptions(options), serverToken }, install);
  });

  program
    .command("install")
    .description("add a folder, storage or server to a host on this machine")
    .addArgument(new Argument("<host>", "host that gets it").choices(hostNames))
    .argument("<source>", "what `sluice serve` serves, or the URL of a server to bridge")
    .argument("[options...]", "options of `sluice serve` or `sluice bridge`, after --")
    .option("--name <name>", "name of the server in the host", serverName, "files")
    .option("--dry-run", "only show the change")
    .action(async (host: HostName, source: string, words: string[], options: InstallOptions) => {
      const { name, dryRun: isDryRun = false } = options;
      const command = /^https?:/i.test(source) ? ["bridge", source] : ["serve", "--stdio", source];
      const target = { host, name, isDryRun };
      await commandLine(signal, target).parseAsync([...command, ...words], { from: "user" });
    });

  addServerCommands(program, { load, runOptions });
  addOperatorCommands(program, { load, signal });
  program
    .command("completion")
    .description("print a script that lets a shell complete commands and options")
    .addArgument(new Argument("<shell>", "shell that reads it").choices(shells))
    .addHelpText("after", completionExamples)
    .action((shell: Shell) => void process.stdout.write(completionScript(shell, program)));
  return program;
}

/** Options of `sluice install`. */
interface InstallOptions {
  readonly name: string;
  readonly dryRun?: boolean;
}

const originText =
  "web origin whose pages may use the server, such as http://localhost:6274; may be repeated";

const examples = `Examples:
  sluice serve ./files
  sluice ls http://127.0.0.1:2532/mcp
  sluice get http://127.0.0.1:2532/mcp files://local/big.iso -o downloads/
  sluice get http://127.0.0.1:2532/mcp reports/ -o copies/
  sluice sync http://127.0.0.1:2532/mcp reports/ copies --dry-run
  sluice put http://127.0.0.1:2532/mcp report.pdf`;

const completionExamples = `
Examples:
  source <(sluice completion bash)      in ~/.bashrc
  source <(sluice completion zsh)       in ~/.zshrc, after compinit
  sluice completion fish | source       in ~/.config/fish/config.fish`;

const serveExamples = `
Examples:
  sluice serve ./files
  sluice serve ./files --stdio --print-config
  sluice serve ./files --uploads ./inbox --port 8080
  sluice serve ./files --host files.lan --tls-cert chain.pem --tls-key key.pem
  sluice serve 's3://my-bucket/reports?region=eu-west-1'
  sluice serve --config /etc/sluice.json --check`;
