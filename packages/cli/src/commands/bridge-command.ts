import {
  bridgeStateFolder,
  createHttpUpstream,
  createProcessUpstream,
  createStdioHost,
  runBridge,
  type Upstream,
} from "@sluice/bridge";
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
  /** Ends the bridge. */
  readonly signal: AbortSignal;
}

/**
 * `sluice bridge`: a stdio MCP server for a host, in front of the server at a URL or of a program. Everything passes
 * unchanged. It ends when the host closes its input.
 */
export async function bridgeCommand(
  server: readonly string[],
  options: BridgeCommandOptions,
): Promise<void> {
  const upstream = upstreamOf(server, options);
  await runBridge({
    host: createStdioHost(),
    upstream,
    signal: options.signal,
    onNote: (line) => note(`sluice: ${printable(line)}`),
  });
}

function upstreamOf(server: readonly string[], options: BridgeCommandOptions): Upstream {
  const [first, ...args] = server;
  if (first === undefined)
    throw fault("invalid_argument", "there is no server", "pass its URL, or -- and a command");
  if (!/^https?:\/\//i.test(first)) return createProcessUpstream({ command: first, args });
  if (args.length > 0)
    throw fault("invalid_argument", `${args.length + 1} servers are given`, "pass one URL");
  const { token, signal } = options;
  const headers = headersFrom(options.header ?? []);
  const signIn = { folder: bridgeStateFolder(), openBrowser: showPage, signal };
  const hasOwn = Object.keys(headers).some((name) => name.toLowerCase() === "authorization");
  return createHttpUpstream({
    url: urlFrom(first),
    headers,
    token,
    signIn: options.browser && !hasOwn ? signIn : undefined,
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
