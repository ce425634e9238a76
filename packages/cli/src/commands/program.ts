import { Argument, Command, Option } from "commander";
import { hostNames, type HostName } from "../hosts/host-files.ts";
import type { InstallTarget } from "../hosts/install-server.ts";
import { formatExitCodes } from "../terminal/exit-code.ts";
import type { BridgeCommandOptions } from "../bridge/bridge-options.ts";
import type { CatOptions } from "./cat-command.ts";
import type { DoctorOptions } from "./doctor-command.ts";
import type { GetOptions } from "./get-command.ts";
import type { ListCommandOptions } from "./list-command.ts";
import {
  collect,
  originOf,
  sizeInBytes,
  stepInBytes,
  headerOption,
  partOfFile,
  tokenOption,
  wholeNumber,
  readToken,
  serverName,
} from "./option-values.ts";
import { addOperatorCommands } from "./operator-commands.ts";
import type { PutOptions } from "./put-command.ts";
import type { ServeCommandOptions } from "../serve/serve-options.ts";
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
  const runOptions = <Given extends { readonly token?: string | undefined }>(options: Given) => ({
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
      "<source>",
      "folder, s3://bucket/prefix, azblob://container/prefix or graph://driveId/path",
    )
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
    .action(async (source: string, options: Omit<ServeCommandOptions, "signal">) => {
      const { serveCommand } = await load(import("./serve-command.ts"));
      await serveCommand(source, runOptions(options), install);
    });

  program
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
    .option("--print-config", "print configuration for MCP hosts and exit")
    .action(async (server: string[], options: Omit<BridgeCommandOptions, "signal">) => {
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

  program
    .command("doctor")
    .description("diagnose why transfers with a server fail on this machine")
    .argument("<server>", "URL of its MCP endpoint")
    .option(
      "--header <line>",
      "header of every request, as 'Name: value'; ${NAME} is from the environment; may be repeated",
      collect,
    )
    .option(
      "--trust <origin>",
      "origin that bytes may come from besides the server's own; may be repeated",
      collect,
    )
    .option(
      "--watch <seconds>",
      "how long to keep a stream open, to see whether it is cut",
      wholeNumber(1, 3_600),
      5,
    )
    .option("--json", "print the result as one JSON object")
    .addOption(tokenOption("token for the server"))
    .addHelpText("after", doctorExamples)
    .action(async (server: string, options: Omit<DoctorOptions, "signal">) => {
      const { doctorCommand } = await load(import("./doctor-command.ts"));
      await doctorCommand(server, runOptions(options));
    });

  program
    .command("ls")
    .description("list the resources of a server")
    .argument("<server>", "URL of its MCP endpoint")
    .option("--json", "one JSON object per line")
    .addOption(headerOption())
    .addOption(tokenOption("token for the server"))
    .addHelpText("after", listExamples)
    .action(async (server: string, options: Omit<ListCommandOptions, "signal">) => {
      const { listCommand } = await load(import("./list-command.ts"));
      await listCommand(server, runOptions(options));
    });

  program
    .command("get")
    .description("download resources; run again to resume an interrupted download")
    .argument("<server>", "URL of its MCP endpoint")
    .argument(
      "[resources...]",
      "URIs, names, folders (reports/) or globs ('reports/**/*.pdf') of resources",
    )
    .option("-o, --output <path>", "file, or folder to put it into; - is standard output", ".")
    .option("-f, --force", "replace files that differ")
    .option(
      "--include <glob>",
      "get only these of a folder, such as '*.pdf'; may be repeated",
      collect,
    )
    .option("--exclude <glob>", "get all but these of a folder; may be repeated", collect)
    .option("--max-size <size>", "largest download to accept: 500M, 20G, …", sizeInBytes)
    .option("-y, --yes", "do not ask before a download of more than 1 GiB")
    .option(
      "--connections <number>",
      "connections to fetch over in parallel",
      wholeNumber(1, 16),
      1,
    )
    .option("-j, --jobs <number>", "resources to get in parallel", wholeNumber(1, 16), 5)
    .option(
      "--trust <origin>",
      "origin that the bytes may come from besides the server's own; may be repeated",
      collect,
    )
    .option("--checksum <file>", "file of SHA-256 digests that the files must have (sha256sum)")
    .option("--limit-rate <size>", "bytes a second, of all together: 500K, 2M, …", sizeInBytes)
    .option("-q, --quiet", "print only the paths, and what went wrong")
    .option("--json", "print the result as one JSON object")
    .addOption(headerOption())
    .addOption(tokenOption("token for the server"))
    .addHelpText("after", getExamples)
    .action(async (server: string, names: string[], options: Omit<GetOptions, "signal">) => {
      const { getCommand } = await load(import("./get-command.ts"));
      await getCommand(server, names, runOptions(options));
    });

  program
    .command("cat")
    .description("write resources to standard output, and nothing else")
    .argument("<server>", "URL of its MCP endpoint")
    .argument("<resources...>", "URIs, names, folders or globs of resources")
    .option("--range <first-last>", "only these bytes of one: 0-99, 100- or -500", partOfFile)
    .option("--limit-rate <size>", "bytes a second: 500K, 2M, …", sizeInBytes)
    .option(
      "--trust <origin>",
      "origin that the bytes may come from besides the server's own; may be repeated",
      collect,
    )
    .addOption(headerOption())
    .addOption(tokenOption("token for the server"))
    .addHelpText("after", catExamples)
    .action(async (server: string, names: string[], options: Omit<CatOptions, "signal">) => {
      const { catCommand } = await load(import("./cat-command.ts"));
      await catCommand(server, names, runOptions(options));
    });

  program
    .command("put")
    .description("send files to a tool; run again to resume an interrupted upload")
    .argument("<server>", "URL of its MCP endpoint")
    .argument(
      "[files...]",
      "files, folders or globs to send; - is standard input; without any, the tool may ask for them",
    )
    .option("--tool <name>", "tool to call; default: the only one that takes files")
    .option(
      "--trust <origin>",
      "origin that files may go to besides the server's own; may be repeated",
      collect,
    )
    .option("--max-step <size>", stepText, stepInBytes)
    .option("--name <name>", "name for the file; standard input needs one")
    .option("--type <type>", "media type of the files, such as text/csv")
    .option("--include <glob>", "send only these of a folder; may be repeated", collect)
    .option("--exclude <glob>", "send all but these of a folder; may be repeated", collect)
    .option("--flat", "send files of subfolders, under their names alone")
    .option(
      "-j, --jobs <number>",
      "files to send in parallel; default: 5 of folders and globs, else 1",
      wholeNumber(1, 16),
    )
    .option("-q, --quiet", "print only what the tool says, and what went wrong")
    .option("--json", "print the results as JSON objects, one a line")
    .addOption(headerOption())
    .addOption(tokenOption("token for the server"))
    .addHelpText("after", putExamples)
    .action(async (server: string, files: string[], options: Omit<PutOptions, "signal">) => {
      const { putCommand } = await load(import("./put-command.ts"));
      await putCommand(server, files, runOptions(options));
    });

  addOperatorCommands(program, { load, signal });
  return program;
}

/** Options of `sluice install`. */
interface InstallOptions {
  readonly name: string;
  readonly dryRun?: boolean;
}

const originText =
  "web origin whose pages may use the server, such as http://localhost:6274; may be repeated";
const stepText =
  "max size of one request of an upload; default: all at once, and less if a proxy refuses it";

const examples = `Examples:
  sluice serve ./files
  sluice ls http://127.0.0.1:2532/mcp
  sluice get http://127.0.0.1:2532/mcp files://local/big.iso -o downloads/
  sluice get http://127.0.0.1:2532/mcp reports/ -o copies/
  sluice put http://127.0.0.1:2532/mcp report.pdf`;

const serveExamples = `
Examples:
  sluice serve ./files
  sluice serve ./files --stdio --print-config
  sluice serve ./files --uploads ./inbox --port 8080
  sluice serve 's3://my-bucket/reports?region=eu-west-1'`;

const doctorExamples = `
Examples:
  sluice doctor https://mcp.acme.com/mcp
  sluice doctor https://mcp.acme.com/mcp --header 'X-Key: \${ACME_KEY}' --watch 120`;

const listExamples = `
Examples:
  sluice ls http://127.0.0.1:2532/mcp
  sluice ls https://mcp.acme.com/mcp --header 'X-Key: \${ACME_KEY}' --json`;

const getExamples = `
Examples:
  sluice get URL files://local/report.pdf
  sluice get URL report.pdf -o copy.pdf
  sluice get URL reports/ -o copies --exclude drafts/
  sluice get URL 'reports/**/*.pdf' -o copies --checksum SHA256SUMS
  sluice get URL data.csv.gz -o - | gunzip`;

const catExamples = `
Examples:
  sluice cat URL notes.txt
  sluice cat URL app.log --range -1000`;

const putExamples = `
Examples:
  sluice put URL report.pdf
  sluice put URL photos/ --include '*.jpg' --flat
  pg_dump app | sluice put URL - --name app.sql`;
