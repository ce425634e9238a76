import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { mkdirSync, mkdtempSync, realpathSync, rmSync } from "node:fs";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { getDefaultEnvironment } from "@modelcontextprotocol/client/stdio";
import {
  createHttpUpstream,
  createProcessUpstream,
  openFileTools,
  type FileToolsOptions,
} from "@sluice/bridge";
import { onTestFinished } from "vitest";
import { bridged, createHost, type AtEnd } from "./bridged.ts";

/** Folders of one test: to save to, to send from, and one that nothing may be written to. */
export interface Folders {
  readonly save: string;
  readonly send: string;
  readonly outside: string;
}

/** Environment of a command that keeps its state beside the folders of a test. */
export function stateIn({ save }: Pick<Folders, "save">): Record<string, string> {
  return { ...getDefaultEnvironment(), XDG_STATE_HOME: join(dirname(save), "state") };
}

export function makeFolders(atEnd: AtEnd = onTestFinished): Folders {
  const root = realpathSync(mkdtempSync(join(tmpdir(), "sluice-filing-")));
  atEnd(() => rmSync(root, { recursive: true }));
  const [save, send, outside] = ["save", "send", "outside"].map((name) => join(root, name)) as [
    string,
    string,
    string,
  ];
  for (const folder of [save, send, outside]) mkdirSync(folder);
  return { save, send, outside };
}

/** A server to stand in front of. */
export type Behind = URL | { readonly command: string; readonly args: readonly string[] };

/** A host of SDK v2 behind which a bridge with tools for files stands, until the test ends or `atEnd` says. */
export async function hostOf(
  behind: Behind,
  options: Partial<FileToolsOptions> = {},
  host: Client | "legacy" | "modern" = "legacy",
  atEnd: AtEnd = onTestFinished,
): Promise<Client> {
  const url = behind instanceof URL ? behind : undefined;
  const tools = await openFileTools({
    server: { kind: url ? "http" : "process", name: "server", url },
    ...options,
  });
  const upstream =
    behind instanceof URL
      ? createHttpUpstream({ endpoint: behind, wrapFetch: tools.wrapFetch })
      : createProcessUpstream({ ...behind, wrapOutput: tools.wrapOutput, exitMs: 500 });
  const { transport } = bridged({ upstream: tools.watch(upstream), hooks: tools.hooks }, atEnd);
  const client = typeof host === "string" ? createHost(host) : host;
  await client.connect(transport);
  atEnd(() => tools.close());
  return client;
}

/** What a tool says. */
export interface Said {
  readonly text: string;
  readonly isError: boolean;
  readonly facts: Record<string, unknown>;
  /** Characters of the whole result. */
  readonly length: number;
}

export async function callTool(
  client: Client,
  name: string,
  args: Record<string, unknown> = {},
): Promise<Said> {
  const result = await client.callTool({ name, arguments: args });
  const text = result.content
    .map((part) => (part.type === "text" ? part.text : part.type))
    .join("\n");
  const facts = (result.structuredContent ?? {}) as Record<string, unknown>;
  return { text, isError: result.isError === true, facts, length: JSON.stringify(result).length };
}

/** An HTTP server until the test ends, or until `atEnd` says. */
export async function listening(
  listener: RequestListener,
  atEnd: AtEnd = onTestFinished,
): Promise<URL> {
  const server = createServer(listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  atEnd(() => {
    server.closeAllConnections();
    server.close();
  });
  return new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}`);
}

/** Answers to one JSON-RPC request over HTTP: a result, an error, or undefined after it wrote something itself. */
export type McpAnswer = (
  call: { readonly method: string; readonly params: Record<string, any>; readonly id: unknown },
  response: ServerResponse,
) => object | undefined | Promise<object | undefined>;

/** A hand-written server at `/mcp`, of 2025-11-25 unless it `isModern`; `others` gets every other path. */
export async function handWritten(
  answer: McpAnswer,
  others: RequestListener = (_request, response) => void response.writeHead(404).end(),
  isModern = false,
  atEnd: AtEnd = onTestFinished,
): Promise<URL> {
  const url = await listening((request, response) => {
    if (request.url !== "/mcp") others(request, response);
    else if (request.method === "POST") void answerPost(request, response, answer, isModern);
    else response.writeHead(405).end();
  }, atEnd);
  return new URL("/mcp", url);
}

async function answerPost(
  request: IncomingMessage,
  response: ServerResponse,
  answer: McpAnswer,
  isModern: boolean,
): Promise<void> {
  const chunks: Buffer[] = [];
  for await (const chunk of request) chunks.push(chunk as Buffer);
  const { id, method, params = {} } = JSON.parse(Buffer.concat(chunks).toString());
  if (id === undefined) return void response.writeHead(202).end();
  const given =
    method === "initialize" && !isModern
      ? {
          result: {
            protocolVersion: params.protocolVersion,
            capabilities: { tools: {}, resources: {} },
            serverInfo: { name: "written", version: "1" },
          },
        }
      : await answer({ id, method, params }, response);
  if (response.headersSent) return;
  const message = given ?? { error: { code: -32_601, message: "Method not found" } };
  response.writeHead(200, { "content-type": "application/json" });
  response.end(JSON.stringify({ jsonrpc: "2.0", id, ...message }));
}
