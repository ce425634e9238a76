import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { text } from "node:stream/consumers";
import { Client } from "@modelcontextprotocol/client";
import { getDefaultEnvironment, StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioClientTransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { program } from "./sluice.ts";

/** What every one of these clients can do. */
export interface ToolClient extends AsyncDisposable {
  listTools(): Promise<{ tools: readonly { name: string }[] }>;
  callTool(name: string, args?: object): Promise<any>;
}

/** Clients that run a command, as hosts do; unmodified. */
export const stdioClients = {
  "SDK 2, MCP 2026-07-28": (args: readonly string[]) => connectV2(args, "auto"),
  "SDK 2, MCP 2025-11-25": (args: readonly string[]) => connectV2(args, "legacy"),
  "SDK 1": connectV1,
} as const;

async function connectV2(args: readonly string[], mode: "auto" | "legacy"): Promise<ToolClient> {
  const client = new Client({ name: "test", version: "1" }, { versionNegotiation: { mode } });
  await client.connect(new StdioClientTransport(commandOf(args)));
  return {
    listTools: () => client.listTools(),
    callTool: (name, given = {}) => client.callTool({ name, arguments: { ...given } }),
    [Symbol.asyncDispose]: () => client.close(),
  };
}

async function connectV1(args: readonly string[]): Promise<ToolClient> {
  const client = new ClientV1({ name: "test", version: "1" });
  await client.connect(new StdioClientTransportV1(commandOf(args)));
  return {
    listTools: () => client.listTools(),
    callTool: (name, given = {}) => client.callTool({ name, arguments: { ...given } }),
    [Symbol.asyncDispose]: () => client.close(),
  };
}

function commandOf(args: readonly string[]) {
  const [command, ...rest] = startOf(args);
  // what is remembered of saved files is not for the folder of whoever runs the tests
  const { XDG_STATE_HOME = "" } = process.env;
  const env = { ...getDefaultEnvironment(), XDG_STATE_HOME };
  return { command, args: rest, env, stderr: "ignore" as const };
}

function startOf(args: readonly string[]): readonly [string, ...string[]] {
  const [command = "", ...rest] = program;
  return [command, ...rest, "serve", ...args];
}

/** `sluice serve … --stdio` whose pipes a test holds itself. */
export interface RawServer {
  readonly child: ChildProcess;
  /** Sends a message and gives the next line of standard output. */
  ask(message: object): Promise<any>;
  /** Everything that it wrote, once it has ended. */
  ended(): Promise<{ status: number | null; stdout: string; stderr: string }>;
}

export function startRaw(args: readonly string[]): RawServer {
  const [command, ...rest] = startOf([...args, "--stdio"]);
  const child = spawn(command, rest, { stdio: ["pipe", "pipe", "pipe"] });
  const stderr = text(child.stderr);
  const closed = once(child, "close") as Promise<[number | null]>;
  const written: string[] = [];
  const waiting: ((line: string) => void)[] = [];
  createInterface({ input: child.stdout }).on("line", (line) => {
    written.push(line);
    waiting.shift()?.(line);
  });
  return {
    child,
    async ask(message) {
      const line = new Promise<string>((resolve) => void waiting.push(resolve));
      child.stdin.write(`${JSON.stringify({ jsonrpc: "2.0", ...message })}\n`);
      return JSON.parse(await line);
    },
    async ended() {
      const [status] = await closed;
      return { status, stdout: written.join("\n"), stderr: await stderr };
    },
  };
}
