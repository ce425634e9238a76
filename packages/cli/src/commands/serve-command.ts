import { once } from "node:events";
import { existsSync } from "node:fs";
import type { Server } from "node:http";
import { basename, join, resolve } from "node:path";
import { withoutCredentials } from "@sluice/core/internal";
import { type AuditFile, type KeyFile, openKeyFile } from "@sluice/server/node";
import { drainServer } from "@sluice/transport-http/node";
import type { McpServerFactory } from "@modelcontextprotocol/server";
import { serveStdio, StdioServerTransport } from "@modelcontextprotocol/server/stdio";
import { portWarning } from "../hosts/cloud-port.ts";
import {
  claudeCodeLine,
  formatHostConfig,
  runningFile,
  stdioCommand,
} from "../hosts/host-config.ts";
import type { InstallTarget } from "../hosts/install-server.ts";
import { fault } from "../terminal/failure.ts";
import {
  beginToServe,
  endpointOf,
  listen,
  portOf,
  type ServedCertificate,
} from "../serve/listen.ts";
import { ensurePair, readPem } from "../server-calls/server-rules.ts";
import { ensureFolder, ensureNoFile, prepareFolder } from "../storages/prepare-folder.ts";
import { createRefusalLog } from "../serve/refusal-log.ts";
import { httpSide, linksSide, type HttpSide } from "../serve/serve-http.ts";
import {
  checkServeOptions,
  defaultPort,
  type MountChoice,
  type ServeCommandOptions,
} from "../serve/serve-options.ts";
import { noteUnlisted } from "../serve/note-unlisted.ts";
import { closeMounts, folderOf, openMounts, type OpenMount } from "../serve/open-mounts.ts";
import { openTrail } from "../serve/serve-trail.ts";
import { openServed, type Served } from "../serve/served.ts";
import { createUsers } from "../serve/users.ts";
import { note, print, printable, outliveReader } from "../terminal/print.ts";

/** As long as container runtimes wait before they kill; hosts that run a command wait for two seconds. */
const drainMs = { http: 10_000, stdio: 1_000 };

/**
 * `sluice serve`: an MCP server over the files of a folder or another storage, until `signal` or the end of stdin. With `install`
 * it is written into the configuration of a host, and nothing is served.
 */
export async function serveCommand(
  source: string,
  options: ServeCommandOptions,
  install?: InstallTarget,
): Promise<void> {
  const { host, port, stdio = false, appendOnly = [".log"], signal } = options;
  const { printConfig = false } = options;
  const isPrinting = printConfig || install !== undefined;
  await ensureServable(source, options);
  if (!isPrinting)
    for (const [option, target, mode] of targetFolders(options))
      await prepareFolder(target, mode, option);
  if (install) {
    const { installServer } = await import("../hosts/install-server.ts");
    return installServer(install, stdioCommand(source, options, await runningFile()));
  }
  if (printConfig) return print(formatHostConfig(source, options, await runningFile()));
  const mounts = await openMounts(mountsOf(source, options), { appendOnly, signal });
  try {
    const certificate = await readCertificate(options);
    const server = await listen(host, port ?? (stdio ? 0 : defaultPort), certificate);
    await serveFrom(server, { mounts, options });
  } catch (error) {
    // only the library knows invalid options, and its advice is for programmers
    if (error instanceof TypeError)
      throw fault("invalid_argument", error.message, "see `sluice help serve`");
    throw error;
  } finally {
    await closeMounts(mounts);
  }
}

/** Throws for options that cannot be served, and for folders that are missing or files. Makes, opens and calls nothing. */
export async function ensureServable(source: string, options: ServeCommandOptions): Promise<void> {
  checkServeOptions(options);
  for (const mount of mountsOf(source, options)) {
    const folder = folderOf(mount.source);
    if (folder !== undefined) await ensureFolder(folder);
  }
  for (const [option, target] of targetFolders(options)) await ensureNoFile(target, option);
}

function mountsOf(source: string, { mounts, uri }: ServeCommandOptions): readonly MountChoice[] {
  return mounts ?? [{ source, uri }];
}

/** Options and folders that files come into, with the mode of one that has to be made: what users send is not for others. */
function* targetFolders({
  uploads,
  saveTo,
  config,
}: ServeCommandOptions): Generator<[string, string, number]> {
  const isFlag = config === undefined;
  if (uploads !== undefined) yield [isFlag ? "--uploads" : "uploads.folder", uploads, 0o700];
  if (saveTo !== undefined) yield [isFlag ? "--save-to" : "saveTo.folder", saveTo, 0o777];
}

/** The certificate to speak TLS with, if one was named. */
async function readCertificate({
  tlsCert,
  tlsKey,
}: ServeCommandOptions): Promise<ServedCertificate | undefined> {
  if (tlsCert === undefined || tlsKey === undefined) return undefined;
  const cert = await readPem("--tls-cert", tlsCert, "CERTIFICATE");
  const key = await readPem("--tls-key", tlsKey, "PRIVATE KEY");
  ensurePair({ cert, key }, tlsCert, tlsKey);
  return { cert, key };
}

interface ServedSource {
  readonly mounts: readonly OpenMount[];
  readonly options: ServeCommandOptions;
}

/** Serves until the end, and closes everything but the storages. */
async function serveFrom(server: Server, serving: ServedSource): Promise<void> {
  const { mounts, options } = serving;
  const { host, signal, stdio = false } = options;
  const refusals = createRefusalLog(note);
  let trail: AuditFile | undefined;
  let keys: KeyFile | undefined;
  let served: Served | undefined;
  let side: HttpSide | undefined;
  const lookEnd = new AbortController();
  let looks: Promise<void>[] = [];
  try {
    const port = portOf(server);
    // not before: the process that has the address is the only one that writes its trail
    trail = await openTrail({ host, port, ...trailOption(options) });
    keys = await openKeys(options.keys);
    const endpoint = options.publicUrl ?? endpointOf(host, port, options.tlsCert !== undefined);
    const users = options.users && createUsers(options.users);
    served = await openServed({ mounts, endpoint, trail, keys, users }, options);
    side = stdio
      ? linksSide(served)
      : httpSide(served, { name: nameOf(mounts), refusals, options, users });
    beginToServe(server, side.requests);
    if (side.upgrades) server.on("upgrade", side.upgrades);
    if (!stdio) await print(served.sluice.endpoint.url);
    noteStart(serving, { served, trail, side });
    looks = mounts
      .filter(({ source }) => folderOf(source) !== undefined)
      .map(({ storage }) => noteUnlisted(storage, note, lookEnd.signal));
    if (stdio) {
      await serveClient(served.create, signal);
    } else if (!signal.aborted) await once(signal, "abort");
    note("Ending …");
  } finally {
    lookEnd.abort();
    await Promise.all(looks);
    const limit = { deadlineMs: stdio ? drainMs.stdio : drainMs.http };
    const [{ cut }] = await Promise.all([
      drainServer(server, limit),
      side?.sockets?.close(limit),
      served?.uploads?.close(limit),
    ]);
    await side?.close();
    refusals.close();
    if (cut > 0) note(`Cut off: ${cut} that took longer than ${limit.deadlineMs / 1_000} s`);
    await served?.uploads?.remove();
    keys?.close();
    await served?.sluice.close();
    await trail?.close();
  }
}

/** Over stdio there is no address to name a trail by, and two hosts may run the same command. */
function trailOption({ audit, stdio }: ServeCommandOptions): Pick<ServeCommandOptions, "audit"> {
  if (audit !== undefined) return { audit };
  return stdio ? { audit: false } : {};
}

interface Started {
  readonly served: Served;
  readonly trail: AuditFile | undefined;
  readonly side: HttpSide;
}

/** Says what is served, and how to use it. */
function noteStart({ mounts, options }: ServedSource, { served, trail, side }: Started): void {
  const { url } = served.sluice.endpoint;
  const { token, users, stdio } = options;
  const needsToken = token !== undefined || users !== undefined;
  for (const { source } of mounts) {
    const folder = folderOf(source);
    const what = `Serving ${printable(folder === undefined ? source : resolve(folder))}`;
    if (stdio) note(`${what} over stdio; links lead to ${url}`);
    else note(`${what}${needsToken ? ", token needed" : ""}`);
    if (hasPackages(folder))
      note(
        "  node_modules is in it, and models list all of it: serve another folder to leave it out",
      );
  }
  if (stdio) {
    if (token !== undefined)
      note(
        "  --token and SLUICE_TOKEN have no effect: the program that started this is the only client",
      );
    return;
  }
  if (trail && options.audit === undefined)
    note(`  audit trail: ${printable(trail.path)}; --no-audit disables it`);
  if (side.hasFilesPage) note(`  in a browser: ${new URL("/", url).href}`);
  note(`  sluice ls ${url}\n  sluice get ${url} ${mounts[0]?.uri ?? ""}NAME`);
  if (served.uploads) note(`  sluice put ${url} FILE`);
  note(`  ${claudeCodeLine(url, needsToken)}`);
  if (options.config === undefined)
    note("  Claude Desktop, VS Code, Cursor, Codex: run this again with --print-config");
  const warning = portWarning(new URL(url));
  if (warning !== undefined) note(warning);
  note("Ctrl-C ends it.");
}

function hasPackages(folder: string | undefined): boolean {
  return folder !== undefined && existsSync(join(folder, "node_modules"));
}

/** Of what is served, for people: that of the first folder, or the URL of the storage. */
function nameOf([mount]: readonly OpenMount[]): string {
  const { source = "" } = mount ?? {};
  const folder = folderOf(source);
  return folder === undefined ? withoutCredentials(source) : basename(resolve(folder)) || "/";
}

/** The file of keys that was named, if one was. */
async function openKeys(path: string | undefined): Promise<KeyFile | undefined> {
  if (path === undefined) return undefined;
  try {
    return await openKeyFile({ path, onError: (error) => note(`sluice: ${messageOf(error)}`) });
  } catch (error) {
    const advice = "make one with `sluice keys new`; only its owner may read it (chmod 600)";
    throw fault("invalid_argument", messageOf(error), advice);
  }
}

function messageOf(error: unknown): string {
  return printable(error instanceof Error ? error.message : String(error));
}

/** Serves one client over stdin and stdout, in either protocol revision, until it closes stdin or `signal` aborts. */
async function serveClient(factory: McpServerFactory, signal: AbortSignal): Promise<void> {
  outliveReader();
  const disconnect = new AbortController();
  const served = serveStdio(factory, {
    transport: new EndingTransport(() => disconnect.abort()),
    onerror: (error) => note(`sluice: ${printable(error.message)}`),
  });
  try {
    const over = AbortSignal.any([disconnect.signal, signal]);
    if (!over.aborted) await once(over, "abort");
  } finally {
    await served.close();
  }
}

/** Tells when it is closed, even by the end of stdin. */
class EndingTransport extends StdioServerTransport {
  readonly #onEnd: () => void;

  constructor(onEnd: () => void) {
    super();
    this.#onEnd = onEnd;
  }

  override async close(): Promise<void> {
    await super.close();
    this.#onEnd();
  }
}
