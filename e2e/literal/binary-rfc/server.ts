import { createHash } from "node:crypto";
import { randomUUID } from "node:crypto";
import { WebSocketServer } from "ws";
import { bytesOf, listenHttp, type Listening } from "../base/http.ts";
import { resultOf, welcome, type Json, type Message, type Revision } from "../base/message.ts";
import { boundary, content as example, type Mode } from "./examples.ts";

/** A server with one fault, or none. */
export type BinaryFault = "other-id" | "other-checksum" | "short";

export const uri = "file:///screen.png";

/** The answers of a server of the RFC's text, and the bytes behind them. */
export interface BinaryAnswers {
  answer(request: Message): { readonly message: Message; readonly bytes?: Buffer };
}

/** The 16 bytes of a streamId. */
export const idBytes = (streamId: string): Buffer =>
  Buffer.from(streamId.replaceAll("-", ""), "hex");

/** A server that knows one picture. Binary on demand, Base64 else (sections 2 and 4). */
export function binaryAnswers(mode: Mode, bytes: Buffer, fault?: BinaryFault): BinaryAnswers {
  const capabilities = {
    resources: {},
    binaryTransfer: { supported: true, maxBinarySize: 1073741824, supportedModes: [mode] },
  };
  const { mimeType, binaryRef } = example;
  const sum = createHash("sha256")
    .update(fault === "other-checksum" ? "" : bytes)
    .digest("hex");
  return {
    answer(request) {
      const { method = "", id = null, params } = request;
      const cached = { ttlMs: 0, cacheScope: "private" };
      if (method === "initialize" || method === "server/discover") {
        return { message: resultOf(request, welcome(method, capabilities)) };
      }
      if (method === "resources/list") {
        const resources = [{ uri, name: "screen.png", mimeType, size: bytes.length }];
        return { message: resultOf(request, { resources, ...cached }) };
      }
      if (method !== "resources/read") {
        const error = { code: -32601, message: "Method not found" };
        return { message: { jsonrpc: "2.0", id, error } };
      }
      const result = (content: Json): Message =>
        resultOf(request, { contents: [{ uri, mimeType, ...content }], ...cached });
      if (params?.["transferMode"] !== "binary") {
        return { message: result({ blob: bytes.toString("base64") }) };
      }
      const ref = { ...binaryRef, size: bytes.length, checksum: sum };
      return { message: result({ binaryRef: ref }), bytes };
    },
  };
}

/** The id that the bytes carry, and as many of them as the fault leaves. */
export function sent(bytes: Buffer, fault?: BinaryFault): { id: string; data: Buffer } {
  const id = fault === "other-id" ? randomUUID() : example.binaryRef.streamId;
  return { id, data: fault === "short" ? bytes.subarray(1) : bytes };
}

export interface BinaryServer extends AsyncDisposable {
  readonly url: string;
  readonly socketUrl: string;
}

/** The server on node:http (option B) and on a WebSocket (option C). */
export async function startBinaryServer(
  revision: Revision,
  mode: Mode,
  bytes: Buffer,
  fault?: BinaryFault,
): Promise<BinaryServer> {
  const answers = binaryAnswers(mode, bytes, fault);
  const sessions = new Set<string>();
  const { id, data } = sent(bytes, fault);
  const http: Listening = await listenHttp(async (request, response) => {
    if (request.method !== "POST") {
      response.writeHead(request.method === "DELETE" ? 200 : 405).end();
      return;
    }
    const message = JSON.parse((await bytesOf(request)).toString()) as Message;
    const old = revision === "2025-11-25";
    const known = sessions.has(String(request.headers["mcp-session-id"]));
    if (message.id === undefined) response.writeHead(202).end();
    else if (old && message.method !== "initialize" && !known) response.writeHead(400).end();
    else {
      const answer = answers.answer(message);
      const headers: Record<string, string> = {};
      if (old && message.method === "initialize") {
        headers["Mcp-Session-Id"] = randomUUID();
        sessions.add(headers["Mcp-Session-Id"]);
      }
      const json = JSON.stringify(answer.message);
      if (!answer.bytes) {
        response.writeHead(200, { "Content-Type": "application/json", ...headers }).end(json);
        return;
      }
      response.writeHead(200, { "Content-Type": `multipart/mixed; boundary=${boundary}` });
      response.write(`--${boundary}\r\nContent-Type: application/json\r\n\r\n${json}\r\n`);
      response.write(`--${boundary}\r\nContent-Type: image/png\r\nContent-ID: <${id}>\r\n\r\n`);
      response.write(data);
      response.end(`\r\n--${boundary}--\r\n`);
    }
  });
  const sockets = new WebSocketServer({ server: http.server, handleProtocols: () => "mcp" });
  sockets.on("connection", (socket) =>
    socket.on("message", (text) => {
      const request = JSON.parse((text as Buffer).toString()) as Message;
      if (request.id === undefined) return;
      const answer = answers.answer(request);
      socket.send(JSON.stringify(answer.message));
      if (answer.bytes) socket.send(Buffer.concat([idBytes(id), data]));
    }),
  );
  return {
    url: `${http.origin}/mcp`,
    socketUrl: `${http.origin.replace("http", "ws")}/mcp`,
    async [Symbol.asyncDispose]() {
      for (const socket of sockets.clients) socket.terminate();
      sockets.close();
      await http[Symbol.asyncDispose]();
    },
  };
}
