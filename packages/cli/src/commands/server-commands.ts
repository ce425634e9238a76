import type { Command } from "commander";
import type { CatOptions } from "./cat-command.ts";
import type { DoctorOptions } from "./doctor-command.ts";
import type { GetOptions } from "./get-command.ts";
import type { ListCommandOptions } from "./list-command.ts";
import {
  collect,
  partOfFile,
  serverOptions,
  sizeInBytes,
  stepInBytes,
  stepText,
  wholeNumber,
} from "./option-values.ts";
import { serverNamed } from "../server-calls/named-servers.ts";
import type { PutOptions } from "./put-command.ts";
import type { SyncOptions } from "./sync-command.ts";

/** What commands share. */
export interface CommandParts {
  /** Gives a command's code, unless the run has ended while it was loaded. */
  readonly load: <Code>(command: Promise<Code>) => Promise<Code>;
  /** The options of a run, with a checked token and what ends it. */
  readonly runOptions: <Given extends { readonly token?: string | undefined }>(
    options: Given,
  ) => Given & { readonly token: string | undefined; readonly signal: AbortSignal };
}

/** Adds the commands that call a server. */
export function addServerCommands(program: Command, { load, runOptions }: CommandParts): void {
  const added: Command[] = [];
  const command = (name: string): Command => {
    const next = program.command(name);
    added.push(next);
    return next;
  };

  command("doctor")
    .description("diagnose why transfers with a server fail on this machine")
    .argument("<server>", serverText)
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
    .addHelpText("after", doctorExamples)
    .action(async (server: string, options: Omit<DoctorOptions, "signal">) => {
      const { doctorCommand } = await load(import("./doctor-command.ts"));
      const [address, given] = await serverNamed(server, options);
      await doctorCommand(address, runOptions(given));
    });

  command("ls")
    .description("list the resources of a server")
    .argument("<server>", serverText)
    .option("--json", "one JSON object per line")
    .addHelpText("after", listExamples)
    .action(async (server: string, options: Omit<ListCommandOptions, "signal">) => {
      const { listCommand } = await load(import("./list-command.ts"));
      const [address, given] = await serverNamed(server, options);
      await listCommand(address, runOptions(given));
    });

  command("get")
    .description("download resources; run again to resume an interrupted download")
    .argument("<server>", serverText)
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
    .addHelpText("after", getExamples)
    .action(async (server: string, names: string[], options: Omit<GetOptions, "signal">) => {
      const { getCommand } = await load(import("./get-command.ts"));
      const [address, given] = await serverNamed(server, options);
      await getCommand(address, names, runOptions(given));
    });

  command("sync")
    .description("make a folder here the same as a folder of the server")
    .argument("<server>", serverText)
    .argument("<source>", "folder of the server: reports/, files://local/reports/; / is everything")
    .argument("<folder>", "folder here; created if missing")
    .option("-n, --dry-run", "only print what would be done")
    .option("--delete", "delete files here that the server does not list")
    .option("-y, --yes", "do not ask before files are deleted")
    .option("--include <glob>", "sync only these, such as '*.pdf'; may be repeated", collect)
    .option("--exclude <glob>", "sync and delete all but these; may be repeated", collect)
    .option("--max-size <size>", "largest file to accept: 500M, 20G, …", sizeInBytes)
    .option(
      "--connections <number>",
      "connections to fetch over in parallel",
      wholeNumber(1, 16),
      1,
    )
    .option("-j, --jobs <number>", "files to get in parallel", wholeNumber(1, 16), 5)
    .option(
      "--trust <origin>",
      "origin that the bytes may come from besides the server's own; may be repeated",
      collect,
    )
    .option("--limit-rate <size>", "bytes a second, of all together: 500K, 2M, …", sizeInBytes)
    .option("-q, --quiet", "print only the changes, and what went wrong")
    .option("--json", "one JSON object per change")
    .addHelpText("after", syncExamples)
    .action(
      async (
        server: string,
        source: string,
        folder: string,
        options: Omit<SyncOptions, "signal">,
      ) => {
        const { syncCommand } = await load(import("./sync-command.ts"));
        const [address, given] = await serverNamed(server, options);
        await syncCommand(address, source, folder, runOptions(given));
      },
    );

  command("cat")
    .description("write resources to standard output, and nothing else")
    .argument("<server>", serverText)
    .argument("<resources...>", "URIs, names, folders or globs of resources")
    .option("--range <first-last>", "only these bytes of one: 0-99, 100- or -500", partOfFile)
    .option("--limit-rate <size>", "bytes a second: 500K, 2M, …", sizeInBytes)
    .option(
      "--trust <origin>",
      "origin that the bytes may come from besides the server's own; may be repeated",
      collect,
    )
    .addHelpText("after", catExamples)
    .action(async (server: string, names: string[], options: Omit<CatOptions, "signal">) => {
      const { catCommand } = await load(import("./cat-command.ts"));
      const [address, given] = await serverNamed(server, options);
      await catCommand(address, names, runOptions(given));
    });

  command("put")
    .description("send files to a tool; run again to resume an interrupted upload")
    .argument("<server>", serverText)
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
    .addHelpText("after", putExamples)
    .action(async (server: string, files: string[], options: Omit<PutOptions, "signal">) => {
      const { putCommand } = await load(import("./put-command.ts"));
      const [address, given] = await serverNamed(server, options);
      await putCommand(address, files, runOptions(given));
    });

  // last in their help
  for (const each of added) {
    if (each.name() !== "doctor")
      each.option("--no-browser", "do not sign in if the server asks for it");
    for (const option of serverOptions()) each.addOption(option);
  }
}

const serverText = "URL of its MCP endpoint, or its name in servers.json";

const doctorExamples = `
Examples:
  sluice doctor https://mcp.acme.com/mcp
  sluice doctor https://mcp.acme.lan/mcp --cacert acme-ca.pem
  sluice doctor https://mcp.acme.com/mcp --header 'X-Key: \${ACME_KEY}' --watch 120`;

const listExamples = `
Examples:
  sluice ls http://127.0.0.1:2532/mcp
  sluice ls https://mcp.acme.lan/mcp --cacert acme-ca.pem --cert me.pem --key me.key
  sluice ls https://mcp.acme.com/mcp --header 'X-Key: \${ACME_KEY}' --json`;

const getExamples = `
Examples:
  sluice get URL files://local/report.pdf
  sluice get URL report.pdf -o copy.pdf
  sluice get URL reports/ -o copies --exclude drafts/
  sluice get URL 'reports/**/*.pdf' -o copies --checksum SHA256SUMS
  sluice get URL data.csv.gz -o - | gunzip`;

const syncExamples = `
Examples:
  sluice sync URL reports/ copies --dry-run --delete
  sluice sync URL files://local/reports/ copies --exclude drafts/
  sluice sync URL / mirror --delete --yes`;

const catExamples = `
Examples:
  sluice cat URL notes.txt
  sluice cat URL app.log --range -1000`;

const putExamples = `
Examples:
  sluice put URL report.pdf
  sluice put URL photos/ --include '*.jpg' --flat
  pg_dump app | sluice put URL - --name app.sql`;
