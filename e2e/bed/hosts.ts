import { spawn } from "node:child_process";
import { once } from "node:events";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";
import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport } from "@modelcontextprotocol/sdk/client/stdio.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { ElicitRequestSchema } from "@modelcontextprotocol/sdk/types.js";
import { freePort, untilAnswered } from "./listen.ts";

/** What a model gets from a tool. */
export interface ToolAnswer {
  readonly content: readonly {
    readonly type: string;
    readonly text?: string;
    readonly uri?: string;
  }[];
  readonly structuredContent?: Readonly<Record<string, unknown>>;
  readonly isError?: boolean;
}

/** An application with a model in it: the client of an official SDK, which knows nothing of Sluice. */
export interface Host extends AsyncDisposable {
  /** Of the MCP session, where there is one. */
  readonly sessionId: string | undefined;
  listTools(): Promise<readonly { readonly name: string }[]>;
  callTool(name: string, args?: Record<string, unknown>): Promise<ToolAnswer>;
}

/** Where a host finds its server: an endpoint, or a command that speaks MCP over stdio. */
export type HostTarget =
  | string
  | { readonly command: string; readonly args: readonly string[]; readonly home: string };

/** How a host is made. */
export interface HostOptions {
  readonly target: HostTarget;
  /** Opens a URL for the user, in hosts that can be asked to. */
  readonly openPage?: (url: string) => void;
}

const info = { name: "host", version: "1.0.0" };
const callOptions = { timeout: 60_000 };

/** A client of 2026-07-28 that is asked in forms and by URL, such as the ones in editors. */
export async function connectModernHost({
  target,
  openPage,
}: HostOptions & { readonly target: string }): Promise<Host> {
  const client = new ClientV2(info, {
    capabilities: openPage ? { elicitation: { form: {}, url: {} } } : {},
    versionNegotiation: { mode: "auto" },
  });
  if (openPage)
    client.setRequestHandler("elicitation/create", async ({ params }) => {
      if (params.mode !== "url") return { action: "decline" };
      openPage(params.url);
      return { action: "accept" };
    });
  const transport = new TransportV2(new URL(target));
  await client.connect(transport);
  return toHost(client as never, () => transport.sessionId);
}

/** A client of 2025-11-25 of the first SDK, in a session where the server gives one. */
export async function connectLegacyHost({ target, openPage }: HostOptions): Promise<Host> {
  const capabilities = openPage ? { elicitation: { form: {}, url: {} } } : {};
  const client = new ClientV1(info, { capabilities });
  if (openPage)
    client.setRequestHandler(ElicitRequestSchema, ({ params }) => {
      if (params.mode !== "url") return { action: "decline" };
      openPage(params.url);
      return { action: "accept" };
    });
  const transport = typeof target === "string" ? new TransportV1(new URL(target)) : stdio(target);
  await client.connect(transport);
  return toHost(client, () => ("sessionId" in transport ? transport.sessionId : undefined));
}

function stdio({ command, args, home }: Exclude<HostTarget, string>): StdioClientTransport {
  const { PATH = "" } = process.env;
  const env = { PATH, HOME: home, MCP_REMOTE_CONFIG_DIR: home };
  return new StdioClientTransport({ command, args: [...args], env, stderr: "pipe" });
}

function toHost(client: ClientV1, sessionId: () => string | undefined): Host {
  return {
    get sessionId() {
      return sessionId();
    },
    listTools: async () => (await client.listTools()).tools,
    callTool: async (name, args = {}) =>
      (await client.callTool({ name, arguments: args }, undefined, callOptions)) as ToolAnswer,
    [Symbol.asyncDispose]: () => client.close(),
  };
}

const require = createRequire(import.meta.url);

/** Programs that stand between a host of stdio and an endpoint, by the way they are started. */
export const proxies: Readonly<Record<string, (url: string) => readonly string[]>> = {
  "mcp-remote 0.1": (url) => [binary("mcp-remote-0-1", "dist/proxy.js"), url],
  "mcp-remote 0.15": (url) => [binary("mcp-remote", "dist/proxy.js"), url],
  supergateway: (url) => [
    binary("supergateway", "dist/index.js"),
    "--streamableHttp",
    url,
    "--logLevel",
    "none",
  ],
};

/** A host of HTTP whose server is a command of stdio, one process for each session, behind supergateway. */
export async function connectBehindGateway(target: Exclude<HostTarget, string>): Promise<Host> {
  const port = await freePort();
  const { command, args, home } = target;
  const gateway = spawn(
    process.execPath,
    [
      binary("supergateway", "dist/index.js"),
      "--stdio",
      [command, ...args].join(" "),
      "--outputTransport",
      "streamableHttp",
      "--stateful",
      "--port",
      `${port}`,
      "--logLevel",
      "none",
    ],
    { cwd: home, stdio: "ignore" },
  );
  const end = async (): Promise<void> => {
    if (gateway.kill()) await once(gateway, "exit");
  };
  try {
    const url = `http://127.0.0.1:${port}/mcp`;
    await untilAnswered(url);
    const host = await connectLegacyHost({ target: url });
    return {
      ...host,
      sessionId: host.sessionId,
      async [Symbol.asyncDispose]() {
        await host[Symbol.asyncDispose]();
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}

function binary(name: string, path: string): string {
  return join(dirname(require.resolve(`${name}/package.json`)), path);
}
