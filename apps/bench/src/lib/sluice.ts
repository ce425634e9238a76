/** Sluice over the files of the bench, and what outside programs have to ask it for. */
import { request as httpsRequest } from "node:https";
import { Readable } from "node:stream";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { EXTENSION_ID, STREAM_METHOD, type DeliveryMode } from "@sluice/core/internal";
import { z } from "zod";
import type { Bench } from "./bench.ts";
import type { OffloadPlace, Tls } from "./peers.ts";
import { startNodeServer, type ServerProcess } from "./processes.ts";
import type { Service } from "./service.ts";

/** How Sluice hands over the bytes: in the answer to the call, or behind a URL of its own. */
export type SluiceRoute = "direct" | "download";

/** Names of the ways of Sluice in the tables. */
export const routeNames: Readonly<Record<SluiceRoute, string>> = {
  download: "Sluice, download URL",
  direct: "Sluice, direct answer",
};

/** Options of {@link startSluiceServer}. */
export interface SluiceServerOptions {
  /** The files. Default: those of the bench. */
  readonly root?: string;
  readonly delivery?: DeliveryMode;
  readonly tls?: Tls | undefined;
  /** Origin of another server of the same files, where redirects lead. */
  readonly storageOrigin?: string;
  /** A storage service to pass on, instead of the files of the bench. */
  readonly service?: Service | undefined;
  /** Streams at once. Default: 1,024. */
  readonly streams?: number;
  /** Port that it listens on. Default: any. */
  readonly port?: number;
  /** Port that clients use, of a proxy in front. */
  readonly publicPort?: number;
  /** Storages in all, each below its base URI; that of the files is the last. Default: one, without mounts. */
  readonly mounts?: number;
  /** Leave files to that proxy. */
  readonly offload?: OffloadPlace;
}

/** A server with its MCP endpoint. */
export type SluiceServer = ServerProcess & { readonly endpoint: string };

/** Starts an MCP server with Sluice over the files of the bench. */
export async function startSluiceServer(
  bench: Bench,
  options: SluiceServerOptions = {},
): Promise<SluiceServer> {
  const args = [JSON.stringify({ root: bench.files, delivery: "direct", ...options })];
  const server = await startNodeServer("sluice-server", args, bench);
  return { ...server, endpoint: endpointOf(server) };
}

/** The MCP endpoint of a server. */
export function endpointOf(server: ServerProcess): string {
  return String(server.ready["endpoint"]);
}

/** URI of a file of the bench on its Sluice server. */
export function uriOf(file: string): string {
  return `files://bench/${file}`;
}

/** A running server and what to ask it for. */
export interface Served {
  readonly name: string;
  readonly server: ServerProcess;
  readonly url: string;
  /** More arguments for curl, for a request that is not a plain GET. */
  readonly curlArgs?: readonly string[];
}

/** Starts a server and works out what curl has to ask it for. */
export async function startSluice(
  bench: Bench,
  route: SluiceRoute,
  file: string,
  options: SluiceServerOptions = {},
): Promise<Served> {
  const delivery = route === "direct" ? "direct" : "downloadUrl";
  const server = await startSluiceServer(bench, { delivery, ...options });
  const name = routeNames[route];
  try {
    if (route === "download")
      return { name, server, url: await downloadUrlOf(server.endpoint, uriOf(file)) };
    const call = await recordStream(server.endpoint, uriOf(file));
    const headers = [...call.headers].flatMap(([key, value]) => ["--header", `${key}: ${value}`]);
    const curlArgs = [...headers, "--data-binary", call.body];
    return { name, server, url: server.endpoint, curlArgs };
  } catch (error) {
    await server[Symbol.asyncDispose]();
    throw error;
  }
}

/** A URL from which outside programs can download the resource. */
export async function downloadUrlOf(endpoint: string, uri: string): Promise<string> {
  const { result } = await recordCall(endpoint, { method: STREAM_METHOD, params: { uri } });
  const { downloadUrl } = result;
  if (typeof downloadUrl !== "string") throw new Error("bench: the server gave no download URL");
  return downloadUrl;
}

/** The call of `resources/stream` that answers with the bytes; they are not fetched here. */
export async function recordStream(endpoint: string, uri: string): Promise<RecordedCall> {
  const answer = { resultType: "complete", uri };
  return recordCall(endpoint, { method: STREAM_METHOD, params: { uri }, answer });
}

/** A call as the official client sends it, for outside programs to repeat. */
export interface RecordedCall {
  readonly headers: Headers;
  readonly body: string;
  readonly result: Readonly<Record<string, unknown>>;
}

/** What to call. */
interface Call {
  readonly method: string;
  readonly params: Readonly<Record<string, unknown>>;
  /** Answers instead of the server. */
  readonly answer?: object;
}

/** Calls a method with the official client and keeps the request. */
export async function recordCall(endpoint: string, call: Call): Promise<RecordedCall> {
  const { method, params, answer } = call;
  let sent: { headers: Headers; body: string } | undefined;
  const next = endpoint.startsWith("https:") ? fetchUnverified : fetch;
  const recording = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const body = typeof init?.body === "string" ? init.body : "";
    if (body.includes(`"${method}"`)) {
      sent = { headers: new Headers(init?.headers), body };
      const { id } = JSON.parse(body) as { id: unknown };
      if (answer) return Response.json({ jsonrpc: "2.0", id, result: answer });
    }
    return next(url, init);
  };
  const transport = new StreamableHTTPClientTransport(new URL(endpoint), { fetch: recording });
  const client = new Client(
    { name: "bench", version: "0.0.0" },
    {
      capabilities: { extensions: { [EXTENSION_ID]: {} } },
      versionNegotiation: { mode: "auto" },
    },
  );
  await client.connect(transport);
  try {
    const result = await client.request({ method, params }, z.looseObject({}));
    if (sent === undefined) throw new Error(`bench: the client sent no ${method}`);
    sent.headers.set("accept", "application/json, text/event-stream, */*");
    return { ...sent, result };
  } finally {
    await client.close();
  }
}

/** What wrk has to send: the call as the official client made it. */
export function wrkScript({ headers, body }: RecordedCall): string {
  const lines = [...headers].map(([name, value]) => `wrk.headers[ ${lua(name)} ] = ${lua(value)}`);
  return ['wrk.method = "POST"', `wrk.body = ${lua(body)}`, ...lines, ""].join("\n");
}

/** A text as Lua writes it. */
function lua(text: string): string {
  return `[==[${text}]==]`;
}

/** `fetch` that takes the self-signed certificate of a server on this machine. */
async function fetchUnverified(url: string | URL, init?: RequestInit): Promise<Response> {
  const headers = Object.fromEntries(new Headers(init?.headers));
  return new Promise((resolve, reject) => {
    const options = { method: init?.method ?? "GET", headers, rejectUnauthorized: false };
    httpsRequest(url, options, (answer) => {
      const status = answer.statusCode ?? 500;
      const body = status === 204 || status === 202 ? null : Readable.toWeb(answer);
      resolve(
        new Response(body as ReadableStream | null, {
          status,
          headers: answer.headers as Record<string, string>,
        }),
      );
    })
      .on("error", reject)
      .end(init?.body);
  });
}
