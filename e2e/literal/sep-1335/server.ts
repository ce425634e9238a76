import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { bytesOf, listenHttp } from "../base/http.ts";
import { resultOf, welcome, type Json, type Message } from "../base/message.ts";

/** A server with one fault, or none. */
export type ResumeFault = "foreign-link" | "no-link";

/** What the server saw of its client. */
export interface Seen {
  /** `Last-Event-ID` of each GET of a stream. */
  readonly resumed: (string | undefined)[];
  /** The array of each POST to a stream. */
  readonly posted: Message[][];
  /** Answers that came to the endpoint and not to the stream. */
  readonly stray: Message[];
  /** Connections that broke off before any event. */
  breaks: number;
}

export interface ResumeServer extends AsyncDisposable {
  readonly url: string;
  readonly seen: Seen;
}

interface Run {
  readonly call: Message;
  readonly question: string;
  /** Events by number; the client has those before `Last-Event-ID` already. */
  readonly events: Message[];
  answer?: Json;
  breaks: number;
}

/**
 * A server of SEP-1335's text on node:http. Its tool `greet` breaks off before any event, then
 * asks the user's name, disconnects, answers 204, and greets on the stream that the POST opens.
 */
export async function startResumeServer(fault?: ResumeFault): Promise<ResumeServer> {
  const sessions = new Set<string>();
  const runs = new Map<string, Run>();
  const seen: Seen = { resumed: [], posted: [], stray: [], breaks: 0 };

  const open = (to: ServerResponse, path: string): void => {
    const host = fault === "foreign-link" ? "http://localhost:9" : "";
    const link = fault === "no-link" ? {} : { Link: `<${host}${path}>; rel="stream"` };
    to.writeHead(200, { "Content-Type": "text/event-stream", ...link });
  };
  const json = (to: ServerResponse, message: Message, headers: Record<string, string> = {}): void =>
    void to
      .writeHead(200, { "Content-Type": "application/json", ...headers })
      .end(JSON.stringify(message));
  const sendFrom = (to: ServerResponse, run: Run, start: number): void => {
    for (const [index, message] of run.events.entries()) {
      if (index < start) continue;
      to.write(`id: ${index + 1}\ndata: ${JSON.stringify(message)}\n\n`);
    }
    to.end("retry: 20\n\n");
  };
  const post = (message: Message, session: unknown, to: ServerResponse): void => {
    const { method = "", id = null } = message;
    if (method === "initialize") {
      const started = randomUUID();
      sessions.add(started);
      const result = resultOf(message, welcome(method, { tools: {} }));
      return json(to, result, { "Mcp-Session-Id": started });
    }
    if (!sessions.has(String(session)))
      return void to.writeHead(method === "server/discover" ? 400 : 404).end();
    if (message.method === undefined) seen.stray.push(message);
    if (message.method === undefined || id === null) return void to.writeHead(202).end();
    if (method === "tools/list") {
      const inputSchema = { type: "object", properties: {} };
      return json(to, resultOf(message, { tools: [{ name: "greet", inputSchema }] }));
    }
    if (method !== "tools/call" || message.params?.["name"] !== "greet") {
      const error = { code: -32601, message: "Method not found" };
      return json(to, { jsonrpc: "2.0", id, error });
    }
    const path = `/streams/${randomUUID()}`;
    const question = randomUUID();
    const requestedSchema = { type: "object", properties: { text: { type: "string" } } };
    const params = { mode: "form", message: "What is your name?", requestedSchema };
    const asked: Message = { jsonrpc: "2.0", id: question, method: "elicitation/create", params };
    runs.set(path, { call: message, question, events: [asked], breaks: 0 });
    // headers alone: the connection ends before any event, so there is no Last-Event-ID yet
    open(to, path);
    to.write("retry: 20\n\n", () => {
      seen.breaks += 1;
      to.destroy();
    });
  };
  const resume = (request: IncomingMessage, run: Run, to: ServerResponse): void => {
    const last = request.headers["last-event-id"] as string | undefined;
    seen.resumed.push(last);
    if (run.breaks++ > 0) return void to.writeHead(204).end();
    open(to, request.url!);
    sendFrom(to, run, Number(last ?? 0));
  };
  const take = async (request: IncomingMessage, run: Run, to: ServerResponse): Promise<void> => {
    const answers = JSON.parse((await bytesOf(request)).toString()) as Message[];
    seen.posted.push(answers);
    const { result } = answers.find(({ id }) => id === run.question) ?? {};
    const name = (result?.["content"] as Json | undefined)?.["text"];
    open(to, `/streams/${randomUUID()}`);
    const content = [{ type: "text", text: `Hello, ${String(name)}!` }];
    run.events.push(resultOf(run.call, { content }));
    sendFrom(to, run, 1);
  };

  const http = await listenHttp(async (request, response) => {
    const run = runs.get(request.url!);
    if (run && request.method === "GET") resume(request, run, response);
    else if (run && request.method === "POST") await take(request, run, response);
    else if (request.url === "/mcp" && request.method === "POST") {
      const message = JSON.parse((await bytesOf(request)).toString()) as Message;
      post(message, request.headers["mcp-session-id"], response);
    } else response.writeHead(request.method === "DELETE" ? 200 : 405).end();
  });
  return {
    url: `${http.origin}/mcp`,
    seen,
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}
