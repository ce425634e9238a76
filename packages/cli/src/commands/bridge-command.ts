import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { basename, join } from "node:path";
import {
  bridgeStateFolder,
  createHttpUpstream,
  createProcessUpstream,
  createStdioHost,
  openFileTools,
  runBridge,
  type FileServer,
  type FileTools,
  type Upstream,
} from "@sluice/bridge";
import { ensureTrust } from "../server-calls/connect.ts";
import { fault } from "../outcome/failure.ts";
import { note } from "../terminal/print.ts";
import { printable } from "../terminal/printable.ts";
import { headersFrom } from "./header-lines.ts";

/** Options of `sluice bridge`. */
export interface BridgeCommandOptions {
  /** Headers of every request: `Name: value`. */
  readonly header?: readonly string[];
  /** Bearer token of every request. */
  readonly token?: string | undefined;
  /** Sign in with a browser where the server asks for it. */
  readonly browser: boolean;
  /** Folder that files and large results are saved to. */
  readonly saveTo?: string;
  /** Folders that files are sent from. */
  readonly sendFrom?: readonly string[];
  /** Bytes of a string of an answer that the host gets itself. */
  readonly inline?: number;
  /** Put larger ones into files. */
  readonly spool: boolean;
  /** Bytes. */
  readonly maxSave?: number;
  /** Bytes of everything that bridges saved to the folder. */
  readonly maxTotal?: number;
  /** Days after which unchanged saved files are removed. */
  readonly forgetSaved?: number;
  /** Further origins that bytes may come from and go to. */
  readonly trust?: readonly string[];
  /** Bytes of a file up to which the user is not asked. */
  readonly yesBelow?: number;
  /** Ends the bridge. */
  readonly signal: AbortSignal;
}

/**
 * `sluice bridge`: a stdio MCP server for a host, in front of the server at a URL or of a program. Everything passes
 * unchanged. With folders, it has tools that move files between them and the server. It ends when the host closes its
 * input.
 */
export async function bridgeCommand(
  server: readonly string[],
  options: BridgeCommandOptions,
): Promise<void> {
  const [first, ...args] = server;
  if (first === undefined)
    throw fault("invalid_argument", "there is no server", "pass its URL, or -- and a command");
  ensureTrust(options.trust);
  const url = /^https?:\/\//i.test(first) ? urlFrom(first) : undefined;
  if (url && args.length > 0)
    throw fault("invalid_argument", `${args.length + 1} servers are given`, "pass one URL");
  const tools = await toolsFor(
    { kind: url ? "http" : "process", name: url?.origin ?? basename(first), url },
    options,
  );
  const upstream = url
    ? httpUpstream(url, options, tools)
    : createProcessUpstream({ command: first, args, wrapOutput: tools?.wrapOutput });
  try {
    await runBridge({
      host: createStdioHost(),
      upstream: tools?.watch(upstream) ?? upstream,
      hooks: tools?.hooks,
      signal: options.signal,
      onNote: (line) => note(`sluice: ${printable(line)}`),
    });
  } finally {
    await tools?.close();
  }
}

/** Without a folder there is nothing to move files to or from. */
async function toolsFor(
  server: FileServer,
  options: BridgeCommandOptions,
): Promise<FileTools | undefined> {
  const { saveTo, sendFrom, inline, spool, maxSave, maxTotal, forgetSaved } = options;
  const { trust, yesBelow } = options;
  if (saveTo === undefined && sendFrom === undefined) return undefined;
  const folder = saveTo === undefined ? undefined : fromHome(saveTo);
  if (folder !== undefined) await mkdir(folder, { recursive: true }).catch(() => {});
  return openFileTools({
    server,
    saveTo: folder,
    sendFrom: sendFrom?.map(fromHome),
    spool,
    inlineBytes: inline,
    maxSaveBytes: maxSave,
    maxTotalBytes: maxTotal,
    maxSavedAgeMs: forgetSaved === undefined ? undefined : forgetSaved * dayMs,
    stateFolder: bridgeStateFolder(),
    trustedOrigins: trust,
    agreedBytes: yesBelow,
  });
}

const dayMs = 86_400_000;

/** No shell has read a path in a host's configuration. */
function fromHome(path: string): string {
  return path === "~" || path.startsWith("~/") ? join(homedir(), path.slice(1)) : path;
}

function httpUpstream(
  url: URL,
  options: BridgeCommandOptions,
  tools: FileTools | undefined,
): Upstream {
  const { token, signal } = options;
  const headers = headersFrom(options.header ?? []);
  const signIn = { folder: bridgeStateFolder(), openBrowser: showPage, signal };
  const hasOwn = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  return createHttpUpstream({
    url,
    headers,
    token,
    signIn: options.browser && !hasOwn ? signIn : undefined,
    wrapFetch: tools?.wrapFetch,
  });
}

function urlFrom(text: string): URL {
  if (URL.canParse(text)) return new URL(text);
  throw fault("invalid_argument", "that is no URL", "pass the address of an MCP endpoint");
}

/** A browser may be elsewhere, or not open: the address is printed, too. */
async function showPage(url: URL): Promise<void> {
  note(`sluice: sign in at ${url.href}`);
  const { default: open } = await import("open");
  await open(url.href).catch(() => note("sluice: no browser opened: open that address yourself"));
}
