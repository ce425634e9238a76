import type { IncomingHttpHeaders } from "node:http";
import { ask, bytesOf, typeOf, type Reply } from "../base/http.ts";
import type { HttpPeer, Peer } from "../base/http-client.ts";
import { must, type Json, type Message } from "../base/message.ts";
import { accept } from "./examples.ts";

/** Bytes, and the way they came. */
export interface Streamed {
  readonly mode: "direct" | "redirect" | "downloadUrl";
  readonly bytes: Buffer;
  readonly headers: IncomingHttpHeaders;
}

/** An error of JSON-RPC in place of bytes. */
export class Refused extends Error {
  override readonly name = "Refused";
  readonly error: NonNullable<Message["error"]>;
  constructor(error: NonNullable<Message["error"]>) {
    super(`${error.code} ${error.message}`);
    this.error = error;
  }
}

/** Whether the server declares `resources.stream` (section 1). */
export const declaresStream = (peer: Peer): boolean =>
  (peer.capabilities["resources"] as Json | undefined)?.["stream"] === true;

/** Section 3 over Streamable HTTP: one POST, and a check of `Content-Type`. */
export async function streamHttp(peer: HttpPeer, uri: string, limit: number): Promise<Streamed> {
  must(declaresStream(peer), "1: a server that streams declares resources.stream");
  const reply = await peer.post("resources/stream", { uri }, accept);
  if (reply.status === 302 || reply.status === 307) {
    reply.body.resume();
    must(reply.headers["mcp-resource-uri"] === uri, "3: the redirect has MCP-Resource-Uri");
    const target = new URL(reply.headers.location!, peer.endpoint);
    const same = target.origin === peer.endpoint.origin;
    const found = await ask("GET", target, same ? peer.credentials : {});
    must(found.status === 200, `3: the redirect's target has the bytes, not ${found.status}`);
    return { mode: "redirect", ...(await bytesIn(found, limit)) };
  }
  if (typeOf(reply.headers) === "application/json") {
    const message = JSON.parse((await bytesOf(reply.body)).toString()) as Message;
    must(message.id === reply.id, "3: the answer has the id of its request");
    return download(peer, uri, limit, message, peer.endpoint.origin);
  }
  must(reply.status === 200, `3: a direct answer is 200, not ${reply.status}`);
  must(reply.headers["mcp-resource-uri"] === uri, "3: a direct answer has MCP-Resource-Uri");
  return { mode: "direct", ...(await bytesIn(reply, limit)) };
}

/** Section 4 over a WebSocket: always a download URL. */
export async function streamSocket(
  peer: Peer,
  uri: string,
  limit: number,
  trustedOrigin: string,
): Promise<Streamed> {
  must(declaresStream(peer), "1: a server that streams declares resources.stream");
  return download(peer, uri, limit, await peer.call("resources/stream", { uri }), trustedOrigin);
}

async function download(
  peer: Peer,
  uri: string,
  limit: number,
  { result, error }: Message,
  trustedOrigin: string,
): Promise<Streamed> {
  if (error) throw new Refused(error);
  must(typeof result?.["downloadUrl"] === "string", "3: a result has a downloadUrl");
  must(result["uri"] === uri, "3: a result names its resource");
  must(typeof result["mimeType"] === "string", "3: a result has a mimeType");
  const url = new URL(result["downloadUrl"]);
  const local = url.hostname === "127.0.0.1" || url.hostname === "localhost";
  must(url.protocol === "https:" || local, "3: downloadUrl uses HTTPS");
  must(url.origin === trustedOrigin, "security 3: downloadUrl has the server's origin");
  const found = await ask("GET", url, peer.credentials);
  must(found.status === 200, `3: the download URL has the bytes, not ${found.status}`);
  must(found.headers["mcp-resource-uri"] === uri, "3: a download has the headers of a direct one");
  const streamed = await bytesIn(found, limit);
  const size = result["size"];
  must(size === undefined || size === streamed.bytes.length, "3: size is the number of bytes");
  return { mode: "downloadUrl", ...streamed };
}

async function bytesIn(
  { headers, body }: Reply,
  limit: number,
): Promise<{ readonly bytes: Buffer; readonly headers: IncomingHttpHeaders }> {
  const length = headers["content-length"];
  must(length === undefined || Number(length) <= limit, "3: no more than maxStreamSize");
  must(typeOf(headers) !== "", "3: bytes have a Content-Type");
  return { bytes: await bytesOf(body, limit), headers };
}
