import { formatContentRange, parseRange, sleep } from "@sluice/core/internal";
import type { IncomingMessage, ServerResponse } from "node:http";
import { replyUrl, startRawServer, type RawHandlers, type RawServer } from "./raw-server.ts";

/** What a {@link startFileServer} serves, and how badly. */
export interface ServedFile {
  /** May be replaced while the server runs. */
  content: Buffer;
  /** Strong tag with quotes; by default `"v1"`. */
  etag?: string | undefined;
  /** `Repr-Digest`. */
  digest?: string;
  /** `Last-Modified`. */
  modified?: string | undefined;
  /** `Content-Disposition`. */
  disposition?: string;
  /** Ends each connection after this many bytes of a body. */
  breakAfter?: number | undefined;
  /** Maximum bytes that a connection gets every 2 ms: a client of several then needs them. */
  pace?: number;
  /** Answers every GET with the whole file. */
  ranges?: boolean;
  /** What download URL results say about their freshness. */
  ttlMs?: number;
  readonly delivery?: "direct" | "linked" | "redirect" | "downloadUrl";
  /** Takes the answer over before anything is sent; true when it did. */
  before?(req: IncomingMessage, res: ServerResponse): boolean;
}

/** A server of one file with ranges and every way of delivery. */
export async function startFileServer(file: ServedFile): Promise<RawServer> {
  const handlers: RawHandlers = {
    stream(request, res) {
      const { uri } = request.params;
      const link = `/d/${encodeURIComponent(uri)}`;
      const { delivery = "downloadUrl" } = file;
      if (delivery === "redirect")
        return void res.writeHead(302, { location: link, "mcp-resource-uri": uri }).end();
      if (delivery === "downloadUrl") {
        const { ttlMs } = file;
        const meta = { _meta: { "dev.sluice/resource-streaming": { ttlMs } } };
        const url = new URL(link, server.url).href;
        return replyUrl(res, request, url, ttlMs === undefined ? {} : meta);
      }
      if (delivery === "linked") res.setHeader("link", `<${link}>; rel="stream"`);
      return send(file, uri, undefined, res);
    },
    get(req, res) {
      if (file.before?.(req, res)) return;
      const uri = decodeURIComponent((req.url ?? "").slice("/d/".length));
      send(file, uri, req.headers, res);
    },
  };
  const server = await startRawServer(handlers);
  return server;
}

function send(
  file: ServedFile,
  uri: string,
  headers: IncomingMessage["headers"] | undefined,
  res: ServerResponse,
): void {
  const { content, ranges = true, digest } = file;
  const breakAfter = file.breakAfter ?? Number.POSITIVE_INFINITY;
  const etag = "etag" in file ? file.etag : '"v1"';
  const asked = ranges && etag !== undefined && headers?.["if-range"] === etag;
  const range = asked ? parseRange(headers?.range, content.length) : undefined;
  res.setHeader("mcp-resource-uri", uri);
  if (etag !== undefined) res.setHeader("etag", etag);
  if (digest !== undefined) res.setHeader("repr-digest", digest);
  if (file.modified !== undefined) res.setHeader("last-modified", file.modified);
  if (file.disposition !== undefined) res.setHeader("content-disposition", file.disposition);
  if (range === "unsatisfiable") return void res.writeHead(416).end();
  const { start, end } = range ?? { start: 0, end: content.length };
  if (range) res.setHeader("content-range", formatContentRange({ range, size: content.length }));
  res.setHeader("content-length", end - start);
  res.writeHead(range ? 206 : 200);
  const isWhole = end - start <= breakAfter;
  const body = content.subarray(start, isWhole ? end : start + breakAfter);
  if (file.pace !== undefined) return void sendPaced(body, file.pace, res, isWhole);
  if (isWhole) return void res.end(body);
  // a reset could overtake bytes that the client has not read yet
  res.write(body, () => res.socket?.end());
}

async function sendPaced(
  body: Buffer,
  pace: number,
  res: ServerResponse,
  isWhole: boolean,
): Promise<void> {
  for (let at = 0; at < body.length && !res.destroyed; at += pace) {
    res.write(body.subarray(at, at + pace));
    await sleep(2);
  }
  if (isWhole) res.end();
  else res.socket?.end();
}
