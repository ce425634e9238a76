import { STREAM_METHOD, type DeliveryMode } from "@sluice/core/wire";
import type { OffloadOptions } from "@sluice/transport-http/node";
import type { Bench } from "./bench.ts";
import type { Tls } from "./peers.ts";
import { recordCall, type RecordedCall } from "./recorded-call.ts";
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
  /** The files. Default: those of the bench. */
  readonly root?: string;
  readonly delivery?: DeliveryMode;
  readonly tls?: Tls;
  /** Origin of another server of the same files, where redirects lead. */
  readonly storageOrigin?: string;
  /** A storage service to pass on, instead of the files of the bench. */
  readonly service?: Service;
  /** Streams at once. Default: 1,024. */
  readonly streams?: number;
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
