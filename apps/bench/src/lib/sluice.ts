import { request as httpsRequest } from "node:https";
import { Readable } from "node:stream";
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { EXTENSION_ID, STREAM_METHOD, type DeliveryMode } from "@sluice/core/wire";
import type { OffloadOptions } from "@sluice/transport-http/node";
import { z } from "zod";
import type { Bench } from "./bench.ts";
import type { Tls } from "./peers.ts";
import { startNodeServer, type ServerProcess } from "./server-process.ts";
import type { Service } from "./service.ts";
import type { Served } from "./serving.ts";

/** How Sluice hands over the bytes: in the answer to the call, or behind a URL of its own. */
export type SluiceRoute = "direct" | "download";

/** Name of a way of Sluice in the tables. */
export function nameOfRoute(route: SluiceRoute): string {
  return route === "direct" ? "Sluice, direct answer" : "Sluice, download URL";
}

/** Options of {@link startSluiceServer}. */
export interface SluiceServerOptions {
  readonly delivery?: DeliveryMode;
  readonly tls?: Tls;
  /** Origin of another server of the same files, where redirects lead. */
  readonly storageOrigin?: string;
  /** A storage service to pass on, instead of the files of the bench. */
  readonly service?: Service;
  /** Port that clients use, of a proxy in front. */
  readonly publicPort?: number;
  /** Storages in all, each below its base URI; that of the files is the last. Default: one, without mounts. */
  readonly mounts?: number;
  /** Leave files to that proxy. */
  readonly offload?: Omit<OffloadOptions, "root">;
}

/** Starts an MCP server with Sluice over the files of the bench. `ready.endpoint` is its URL. */
export async function startSluiceServer(
  bench: Bench,
  options: SluiceServerOptions = {},
): Promise<ServerProcess & { readonly endpoint: string }> {
  const args = [JSON.stringify({ root: bench.files, delivery: "direct", ...options })];
  const server = await startNodeServer("sluice-server", args, bench);
  return { ...server, endpoint: String(server.ready["endpoint"]) };
}

/** URI of a file of the bench on its Sluice server. */
export function uriOf(file: string): string {
  return `files://bench/${file}`;
}

/** Starts a server for one table and works out what curl has to ask it for. */
export async function startSluice(
  bench: Bench,
  route: SluiceRoute,
  file: string,
  options: Pick<SluiceServerOptions, "tls" | "service"> = {},
): Promise<Served> {
  const server = await startSluiceServer(bench, { delivery: deliveryOf(route), ...options });
  return servedBy(server, route, file);
}

/** How a server has to deliver for a route. */
export function deliveryOf(route: SluiceRoute): DeliveryMode {
  return route === "direct" ? "direct" : "downloadUrl";
}

/** What curl has to ask a running server for; the server ends when that cannot be found out. */
export async function servedBy(
  server: ServerProcess & { readonly endpoint: string },
  route: SluiceRoute,
  file: string,
): Promise<Served> {
  try {
    const name = nameOfRoute(route);
    if (route === "download")
      return { name, server, url: await downloadUrlOf(server.endpoint, uriOf(file)) };
    const call = await callStream(server.endpoint, uriOf(file), route);
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
  const { downloadUrl } = await callStream(endpoint, uri, "download");
  if (downloadUrl === undefined) throw new Error("bench: the server gave no download URL");
  return downloadUrl;
}

/** A call of `resources/stream` as the official client sends it, for outside programs to repeat. */
export interface StreamCall {
  /** As the official client sent it. */
  readonly headers: Headers;
  readonly body: string;
  /** The answer, in the download route. */
  readonly downloadUrl?: string;
}

/**
 * Calls `resources/stream` with the official client and keeps the request, so that an outside
 * program can repeat it. A direct answer is not fetched.
 */
export async function callStream(
  endpoint: string,
  uri: string,
  route: SluiceRoute,
): Promise<StreamCall> {
  let sent: { headers: Headers; body: string } | undefined;
  const next = endpoint.startsWith("https:") ? fetchUnverified : fetch;
  const recording = async (url: string | URL, init?: RequestInit): Promise<Response> => {
    const body = typeof init?.body === "string" ? init.body : "";
    if (body.includes(`"${STREAM_METHOD}"`)) {
      sent = { headers: new Headers(init?.headers), body };
      if (route === "direct") return Response.json(emptyAnswer(body, uri));
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
    const schema = z.looseObject({ downloadUrl: z.string().optional() });
    const { downloadUrl } = await client.request(
      { method: STREAM_METHOD, params: { uri } },
      schema,
    );
    if (sent === undefined) throw new Error("bench: the client sent no resources/stream");
    sent.headers.set("accept", "application/json, text/event-stream, */*");
    return { ...sent, ...(downloadUrl !== undefined && { downloadUrl }) };
  } finally {
    await client.close();
  }
}

function emptyAnswer(body: string, uri: string): object {
  const { id } = JSON.parse(body) as { id: unknown };
  return { jsonrpc: "2.0", id, result: { resultType: "complete", uri } };
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
