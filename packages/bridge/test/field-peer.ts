// An MCP server of a few lines, from the text of the specification: it knows no code of ours, nor of an SDK.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { text } from "node:stream/consumers";
import { randomUUID } from "node:crypto";
import { listen } from "./peers.ts";
import type { AtEnd } from "./bridged.ts";

/** A request as the peer sees it. */
export interface PeerRequest {
  /** `GET`, `DELETE`, or the method of the message in a POST. */
  readonly method: string;
  readonly id: unknown;
  readonly params: Record<string, unknown>;
  /** Of those that were asked for by the same method so far, from 1. */
  readonly count: number;
  /** The session that it names, if the peer has it. */
  readonly session: string | undefined;
  readonly headers: IncomingMessage["headers"];
  /** Of its URL. */
  readonly path: string | undefined;
}

/** What the peer does in place of its own answer; undefined lets it answer. */
export type Oddity = (
  request: PeerRequest,
  response: ServerResponse,
  peer: Pick<FieldPeer, "restart">,
) => unknown;

/** A running peer, and what it got. */
export interface FieldPeer {
  readonly url: URL;
  /** Methods in order: `GET`, `DELETE` and those of messages. */
  readonly methods: string[];
  /** Calls that ran. */
  readonly runs: unknown[];
  /** Forgets all sessions, as a process that starts again. */
  restart(): void;
}

const page = { "content-type": "text/html" };
const json = { "content-type": "application/json" };

/** The answers of a server that has tools and resources. */
const results: Readonly<Record<string, (params: Record<string, unknown>) => object>> = {
  initialize: () => ({
    protocolVersion: "2025-11-25",
    capabilities: { tools: {}, resources: {} },
    serverInfo: { name: "field", version: "1" },
  }),
  ping: () => ({}),
  "tools/list": () => ({ tools: [{ name: "echo", inputSchema: { type: "object" } }] }),
  "tools/call": () => ({ content: [{ type: "text", text: "ran" }] }),
  "resources/list": () => ({ resources: [{ uri: "field://a/a.txt", name: "a" }] }),
  "resources/read": ({ uri }) => ({ contents: [{ uri, text: "content" }] }),
};

/** Starts a server of 2025-11-25, with sessions unless `isStateless`. As Express does, it has a page for what it has no route for. */
export async function startFieldPeer(
  oddity: Oddity = () => undefined,
  { isStateless = false, atEnd }: { isStateless?: boolean; atEnd?: AtEnd } = {},
): Promise<FieldPeer> {
  const sessions = new Set<string>();
  const methods: string[] = [];
  const runs: unknown[] = [];
  const restart = (): void => sessions.clear();
  const server = createServer((request, response) => void serve(request, response));
  async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = request.method === "POST" ? JSON.parse(await text(request)) : {};
    const { id, method = request.method as string, params = {} } = body;
    methods.push(method);
    const named = request.headers["mcp-session-id"];
    const session = sessions.has(String(named)) ? String(named) : undefined;
    const count = methods.filter((each) => each === method).length;
    const { headers, url: path } = request;
    const seen = { method, id, params, count, session, headers, path };
    if ((await oddity(seen, response, { restart })) !== undefined || response.headersSent) return;
    if (request.method !== "POST")
      return void response.writeHead(404, page).end(`Cannot ${request.method} /mcp`);
    if (method !== "initialize" && !isStateless && session === undefined)
      return void response.writeHead(404, json).end(error(null, -32_001, "Session not found"));
    if (id === undefined) return void response.writeHead(202).end();
    const result = results[method]?.(params);
    if (!result)
      return void response.writeHead(200, json).end(error(id, -32_601, "No such method"));
    if (method === "tools/call") runs.push(params);
    const opened = method === "initialize" && !isStateless ? randomUUID() : undefined;
    if (opened !== undefined) sessions.add(opened);
    const opening = opened === undefined ? {} : { "mcp-session-id": opened };
    response.writeHead(200, { ...json, ...opening });
    response.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
  }
  const { url } = await listen(server, 0, atEnd);
  return { url, methods, runs, restart };
}

/** The text of a JSON-RPC error. */
export function error(id: unknown, code: number, message: string): string {
  return JSON.stringify({ jsonrpc: "2.0", id, error: { code, message } });
}
