import { randomUUID } from "node:crypto";
import type { ServerResponse } from "node:http";
import { bytesOf, listenHttp } from "../base/http.ts";
import { resultOf, welcome, type Json, type Message, type Revision } from "../base/message.ts";
import { completed, request as example } from "./examples.ts";

/** What came to the upload endpoint. */
export interface Uploaded {
  readonly authorization: string | undefined;
  readonly method: string;
  /** Each part: its header lines in small letters, and its bytes. */
  readonly parts: readonly { readonly head: string; readonly bytes: Buffer }[];
}

/** A server with one fault, or none. */
export type UploadFault = "refuses-uploads" | "foreign-endpoint" | "no-endpoint";

export interface UploadServer extends AsyncDisposable {
  readonly url: string;
  readonly uploads: Uploaded[];
  /** The results of `elicitation/create`. */
  readonly answers: Json[];
}

interface Settings {
  readonly revision: Revision;
  readonly token?: string;
  /** Default: POST. */
  readonly method?: "POST" | "PUT";
  readonly fault?: UploadFault | undefined;
}

/** A server of SEP-1306's text on node:http. Its one tool, `analyze`, asks for the text's example. */
export async function startUploadServer(settings: Settings): Promise<UploadServer> {
  const { revision, token, method = "POST", fault } = settings;
  const uploads: Uploaded[] = [];
  const answers: Json[] = [];
  const sessions = new Set<string>();
  const waiting = new Map<unknown, (result: Json) => void>();
  const uploadPath = "/mcp/upload/session-abc123";

  const asking = (): Json => {
    const { uploadId } = example.uploadEndpoints.imageFile;
    const host = fault === "foreign-endpoint" ? "http://localhost:9" : http.origin;
    const imageFile = { url: `${host}${uploadPath}`, method, uploadId };
    return { ...example, uploadEndpoints: fault === "no-endpoint" ? {} : { imageFile } };
  };
  const done = (request: Message, answer: Json): Message => {
    answers.push(answer);
    const { action } = answer;
    return resultOf(request, {
      content: [{ type: "text", text: `the user chose ${String(action)}` }],
    });
  };
  const json = (to: ServerResponse, message: Message, headers: Record<string, string> = {}): void =>
    void to
      .writeHead(200, { "Content-Type": "application/json", ...headers })
      .end(JSON.stringify(message));
  const tool = {
    name: "analyze",
    description: "Analyzes an image",
    inputSchema: { type: "object", properties: {} },
  };
  const callTool = async (message: Message, to: ServerResponse): Promise<void> => {
    if (revision === "2026-07-28") {
      const responses = message.params?.["inputResponses"] as Record<string, Json> | undefined;
      if (responses?.["files"]) return json(to, done(message, responses["files"]));
      const files = { method: "elicitation/create", params: asking() };
      const result = { resultType: "input_required", inputRequests: { files } };
      return json(to, resultOf(message, result));
    }
    const id = randomUUID();
    const answered = new Promise<Json>((resolve) => waiting.set(id, resolve));
    to.writeHead(200, { "Content-Type": "text/event-stream" });
    const event = (data: Message): string => `event: message\ndata: ${JSON.stringify(data)}\n\n`;
    to.write(event({ jsonrpc: "2.0", id, method: "elicitation/create", params: asking() }));
    to.end(event(done(message, await answered)));
  };
  const post = async (message: Message, session: unknown, to: ServerResponse): Promise<void> => {
    const { method: name = "", id = null } = message;
    if (name === "initialize" && revision === "2025-11-25") {
      const started = randomUUID();
      sessions.add(started);
      return json(to, resultOf(message, welcome(name, { tools: {} })), {
        "Mcp-Session-Id": started,
      });
    }
    if (revision === "2025-11-25" && !sessions.has(String(session))) {
      return void to.writeHead(name === "server/discover" ? 400 : 404).end();
    }
    if (message.method === undefined) waiting.get(id)?.(message.result ?? {});
    if (message.method === undefined || id === null) return void to.writeHead(202).end();
    if (name === "server/discover")
      return json(to, resultOf(message, welcome(name, { tools: {} })));
    if (name === "tools/call") return callTool(message, to);
    const cached = { ttlMs: 0, cacheScope: "private" };
    if (name === "tools/list") return json(to, resultOf(message, { tools: [tool], ...cached }));
    json(to, { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } });
  };

  const http = await listenHttp(async (request, response) => {
    if (token && request.headers.authorization !== `Bearer ${token}`) {
      response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
    } else if (request.url === uploadPath) {
      const { authorization } = request.headers;
      const parts = partsOf(request.headers["content-type"] ?? "", await bytesOf(request));
      uploads.push({ authorization, method: request.method!, parts });
      const status = fault === "refuses-uploads" ? 403 : 200;
      response.writeHead(status, { "Content-Type": "application/json" });
      response.end(JSON.stringify(completed));
    } else if (request.method === "POST") {
      const message = JSON.parse((await bytesOf(request)).toString()) as Message;
      await post(message, request.headers["mcp-session-id"], response);
    } else response.writeHead(request.method === "DELETE" ? 200 : 405).end();
  });
  return {
    url: `${http.origin}/mcp`,
    uploads,
    answers,
    [Symbol.asyncDispose]: () => http[Symbol.asyncDispose](),
  };
}

/** The parts of a form (RFC 7578), read in memory. */
function partsOf(type: string, body: Buffer): Uploaded["parts"] {
  const boundary = /boundary="?([^";]+)/.exec(type)?.[1];
  if (!boundary) return [];
  const text = body.toString("latin1");
  const inner = `\r\n${text}`.split(`\r\n--${boundary}`).slice(1, -1);
  return inner.map((part) => {
    const end = part.indexOf("\r\n\r\n");
    const bytes = Buffer.from(part.slice(end + 4), "latin1");
    return { head: part.slice(2, end), bytes };
  });
}
