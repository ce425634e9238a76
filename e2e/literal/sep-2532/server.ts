import { randomUUID } from "node:crypto";
import type { IncomingMessage, ServerResponse } from "node:http";
import { WebSocketServer } from "ws";
import { bytesOf, listenHttp, type Listening } from "../base/http.ts";
import { resultOf, welcome, type Json, type Message, type Revision } from "../base/message.ts";
import { directHeaders, downloadPath, errors, resource, serverCapabilities } from "./examples.ts";

/** Which of the three answers of section 3 the server gives. */
export type Mode = "direct" | 302 | 307 | "downloadUrl";

/** A server with one fault, or none. */
export type ServerFault =
  | "no-uri"
  | "other-uri"
  | "other-id"
  | "short"
  | "redirect-without-uri"
  | "foreign-url"
  | "other-size";

export interface LiteralServer extends AsyncDisposable {
  readonly url: string;
  readonly socketUrl: string;
  /** Header fields of each GET of bytes. */
  readonly downloads: IncomingMessage["headers"][];
}

interface Settings {
  readonly revision: Revision;
  readonly mode: Mode;
  readonly content: Buffer;
  readonly token?: string;
  readonly fault?: ServerFault | undefined;
}

const listed = (size: number): Json => ({ ...resource, size });

/** A server of SEP-2532's text on node:http, with one resource: the text's own. */
export async function startLiteralServer(settings: Settings): Promise<LiteralServer> {
  const { revision, mode, content, token, fault } = settings;
  const downloads: IncomingMessage["headers"][] = [];
  const sessions = new Set<string>();
  const { size: _size, ...named } = resource;

  const uriHeader = (): Record<string, string> => {
    if (fault === "no-uri") return {};
    return { "MCP-Resource-Uri": fault === "other-uri" ? "onedrive:///other" : resource.uri };
  };
  const sendBytes = (response: ServerResponse, extra: Record<string, string>): void => {
    const { "MCP-Resource-Uri": _uri, ...headers } = directHeaders;
    response.writeHead(200, { ...headers, "Content-Length": content.length, ...extra });
    if (fault === "short") {
      response.write(content.subarray(0, content.length - 1), () => response.destroy());
    } else response.end(content);
  };
  const sendJson = (response: ServerResponse, message: Message, session?: string): void => {
    const headers: Record<string, string> = { "Content-Type": "application/json" };
    if (session) headers["Mcp-Session-Id"] = session;
    response.writeHead(200, headers).end(JSON.stringify(message));
  };
  const refusal = (request: Message): Message["error"] => {
    if (request.params?.["uri"] === errors.notSupported.data.uri) return errors.notSupported;
    return request.params?.["uri"] === resource.uri ? undefined : errors.notFound;
  };
  const answer = (request: Message): Message => {
    const { method = "", id = null } = request;
    const refused = method === "resources/stream" || method === "resources/read";
    const error = refused ? refusal(request) : undefined;
    if (error) return { jsonrpc: "2.0", id, error };
    const cached = { ttlMs: 0, cacheScope: "private" };
    if (method === "initialize" || method === "server/discover") {
      return resultOf(request, welcome(method, serverCapabilities));
    }
    if (method === "resources/list") {
      return resultOf(request, { resources: [listed(content.length)], ...cached });
    }
    if (method === "resources/read") {
      const blob = content.toString("base64");
      return resultOf(request, { contents: [{ ...named, blob }], ...cached });
    }
    if (method !== "resources/stream") {
      return { jsonrpc: "2.0", id, error: { code: -32601, message: "Method not found" } };
    }
    const host = fault === "foreign-url" ? "http://localhost:9" : http.origin;
    const size = fault === "other-size" ? content.length + 1 : content.length;
    const { uri, mimeType } = resource;
    const result = { uri, mimeType, size, downloadUrl: `${host}${downloadPath}` };
    return resultOf(fault === "other-id" ? { ...request, id: 999_999 } : request, result);
  };
  const post = (request: Message, headers: IncomingMessage["headers"], to: ServerResponse) => {
    if (request.id === undefined) return to.writeHead(202).end();
    if (request.method === "initialize" && revision === "2025-11-25") {
      const session = randomUUID();
      sessions.add(session);
      return sendJson(to, answer(request), session);
    }
    if (revision === "2025-11-25" && !sessions.has(String(headers["mcp-session-id"]))) {
      return to.writeHead(404).end();
    }
    if (request.method !== "resources/stream" || refusal(request) || mode === "downloadUrl") {
      return sendJson(to, answer(request));
    }
    if (mode === "direct") return sendBytes(to, uriHeader());
    const uri = fault === "redirect-without-uri" ? {} : { "MCP-Resource-Uri": resource.uri };
    return to.writeHead(mode, { Location: `${http.origin}${downloadPath}`, ...uri }).end();
  };

  const http: Listening = await listenHttp(async (request, response) => {
    const signed = request.headers.authorization === `Bearer ${token}`;
    const self = request.url === downloadPath && typeof mode === "number";
    if (token && !signed && !self) {
      response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
    } else if (request.url === downloadPath && request.method === "GET") {
      downloads.push(request.headers);
      // section 3 asks MCP-Resource-Uri of the redirect, not of the storage behind it
      sendBytes(response, self ? {} : uriHeader());
    } else if (request.method === "POST") {
      const message = JSON.parse((await bytesOf(request)).toString()) as Message;
      if (revision === "2026-07-28" && message.method === "initialize") {
        const error = { code: -32022, message: "Unsupported protocol version" };
        sendJson(response, { jsonrpc: "2.0", id: message.id ?? null, error });
      } else if (revision === "2025-11-25" && message.method === "server/discover") {
        response.writeHead(400).end();
      } else post(message, request.headers, response);
    } else response.writeHead(request.method === "DELETE" ? 200 : 405).end();
  });
  const sockets = new WebSocketServer({ server: http.server, handleProtocols: () => "mcp" });
  sockets.on("connection", (socket) =>
    socket.on("message", (data) => {
      const request = JSON.parse((data as Buffer).toString()) as Message;
      if (request.id !== undefined) socket.send(JSON.stringify(answer(request)));
    }),
  );
  return {
    url: `${http.origin}/mcp`,
    socketUrl: `${http.origin.replace("http", "ws")}/mcp`,
    downloads,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await http[Symbol.asyncDispose]();
    },
  };
}
