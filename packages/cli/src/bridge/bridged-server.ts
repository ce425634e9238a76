import { existsSync } from "node:fs";
import { basename } from "node:path";
import {
  createHttpUpstream,
  createProcessUpstream,
  type FileTools,
  type HttpUpstreamOptions,
  type Upstream,
} from "@sluice/bridge";
import { isLoopbackHost } from "@sluice/core/internal";
import { fault } from "../terminal/failure.ts";

/** The server behind a bridge: a URL, or a program. */
export type ServerBehind =
  | { readonly kind: "http"; readonly name: string; readonly url: URL }
  | {
      readonly kind: "process";
      readonly name: string;
      readonly url: undefined;
      readonly command: string;
      readonly args: readonly string[];
    };

/** Reads what the command line names. */
export function serverBehind([first, ...args]: readonly string[]): ServerBehind {
  if (first === undefined)
    throw fault("invalid_argument", "there is no server", "pass its URL, or -- and a command");
  if (isBareAddress(first) && !existsSync(first))
    throw fault(
      "invalid_argument",
      `${first} is neither the address of a server nor a program`,
      `write it like ${isLoopbackHost(hostIn(first)) ? "http" : "https"}://${first}`,
    );
  // run as a program, it would stand in messages with whatever credentials it holds
  if (isForeignAddress(first) && !existsSync(first))
    throw fault(
      "invalid_argument",
      "neither an http: nor https: URL nor a program",
      "write it like https://mcp.example.com/mcp",
    );
  if (!/^https?:\/\//i.test(first))
    return { kind: "process", name: nameOf(first, args), url: undefined, command: first, args };
  if (args.length > 0)
    throw fault("invalid_argument", `${args.length + 1} servers are given`, "pass one URL");
  if (!URL.canParse(first))
    throw fault("invalid_argument", "not a URL", "pass the address of an MCP endpoint");
  const url = new URL(first);
  return { kind: "http", name: url.origin, url };
}

/** True for a host with a port or a path: no program has such a name. */
function isBareAddress(text: string): boolean {
  const [, host = "", port, path] =
    /^([a-z\d-]+(?:\.[a-z\d-]+)*|\[[\da-f:]+\])(:\d+)?(\/.*)?$/i.exec(text) ?? [];
  if (host === "" || !URL.canParse(`http://${text}`)) return false;
  const isHost = host === "localhost" || host.includes(".") || host.startsWith("[");
  return port !== undefined || (isHost && path !== undefined);
}

/** True for an address of another scheme, and for one without a scheme that holds credentials. */
function isForeignAddress(text: string): boolean {
  return /^(?!https?:\/\/)(?:[a-z][a-z\d+.-]*:\/|[^\s/:]*:[^\s/@]*@)/i.test(text);
}

function hostIn(address: string): string {
  return new URL(`http://${address}`).hostname;
}

/** A program that starts others is named with the one that it starts. Other arguments may be secrets. */
function nameOf(command: string, args: readonly string[]): string {
  const name = basename(command);
  if (!launchers.has(name.replace(/\.(?:exe|cmd)$/i, ""))) return name;
  const started = args.find((argument) => !argument.startsWith("-"));
  return started === undefined ? name : `${name} ${basename(started)}`;
}

const launchers: ReadonlySet<string> = new Set(
  "npx bunx pnpx uvx node bun deno python python3".split(" "),
);

/** The surroundings of a server's messages. */
type AroundMessages = Pick<FileTools, "wrapFetch" | "wrapOutput">;

/** A connection to the server, or a process of its own. `access`: what a server behind a URL is shown. */
export function openBehind(
  server: ServerBehind,
  access: Pick<HttpUpstreamOptions, "headers" | "token" | "signIn">,
  around: AroundMessages | undefined,
): Upstream {
  if (server.kind === "http")
    return createHttpUpstream({ ...access, endpoint: server.url, wrapFetch: around?.wrapFetch });
  const { command, args } = server;
  // the tokens are the bridge's own, not the program's
  const { SLUICE_TOKEN: _forHosts, SLUICE_SERVER_TOKEN: _forServer, ...env } = process.env;
  return createProcessUpstream({ command, args, env, wrapOutput: around?.wrapOutput });
}
