import { createHmac, randomBytes } from "node:crypto";
import {
  createServer,
  type IncomingHttpHeaders,
  type RequestListener,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { parseRange } from "@sluice/core/internal";
import type { StorageBackend } from "@sluice/storage";
import type { Certificate } from "./certificate.ts";
import { listen, type Listening } from "./listen.ts";

/** What reached the storage origin. */
export interface StorageRequest {
  readonly method: string;
  readonly url: string;
  readonly headers: IncomingHttpHeaders;
  readonly bodyBytes: number;
}

/** A storage service on an origin of its own, and a backend that signs URLs to it. */
export interface SigningStore extends Listening {
  readonly backend: StorageBackend;
  readonly requests: readonly StorageRequest[];
}

/** Puts a second origin in front of `inner`: it serves every request with a good signature, as object stores do. */
export async function createSigningStore(
  inner: StorageBackend,
  options: {
    readonly front?: (target: () => number) => Promise<Listening>;
    readonly tls?: Certificate;
  } = {},
): Promise<SigningStore> {
  const secret = randomBytes(32);
  const sign = (path: string) => createHmac("sha256", secret).update(path).digest("base64url");
  const requests: StorageRequest[] = [];

  async function serve(url: URL, headers: IncomingHttpHeaders, response: ServerResponse) {
    const signature = url.searchParams.get("signature");
    url.searchParams.delete("signature");
    const expiresAt = Number(url.searchParams.get("expires"));
    if (signature !== sign(url.pathname + url.search) || expiresAt < Date.now()) {
      response.writeHead(403).end();
      return;
    }
    const key = decodeURIComponent(url.pathname.slice(1));
    const { size = 0, etag } = await inner.describe(key);
    const asked = headers["if-range"] === undefined || headers["if-range"] === `"${etag}"`;
    const range = asked ? parseRange(headers.range, size) : undefined;
    if (range === "unsatisfiable") {
      response.writeHead(416, { "content-range": `bytes */${size}` }).end();
      return;
    }
    const { body } = await inner.open(key, { ...(range && { range }) });
    const { start, end } = range ?? { start: 0, end: size };
    response.writeHead(range ? 206 : 200, {
      "content-type": url.searchParams.get("type") ?? "application/octet-stream",
      "content-length": end - start,
      "accept-ranges": "bytes",
      ...(etag && { etag: `"${etag}"` }),
      ...(range && { "content-range": `bytes ${start}-${end - 1}/${size}` }),
    });
    await pipeline(Readable.fromWeb(body as never), response);
  }

  const listener: RequestListener = (request, response) => {
    let bodyBytes = 0;
    request.on("data", (chunk: Buffer) => (bodyBytes += chunk.length));
    request.on("end", () => {
      const { method = "", url = "", headers } = request;
      requests.push({ method, url, headers, bodyBytes });
      serve(new URL(url, listening.origin), headers, response).catch(() => response.destroy());
    });
  };
  const { tls, front } = options;
  const behind = await listen(tls ? createTlsServer(tls, listener) : createServer(listener));
  const listening: Listening = (await front?.(() => behind.port)) ?? behind;

  return {
    ...listening,
    async close() {
      await listening.close();
      await behind.close();
    },
    requests,
    backend: {
      ...inner,
      name: "signing",
      async presign(key, { expiresInMs, contentType }) {
        const expiresAt = Date.now() + expiresInMs;
        const url = new URL(`/${encodeURIComponent(key)}`, listening.origin);
        url.searchParams.set("expires", String(expiresAt));
        if (contentType) url.searchParams.set("type", contentType);
        url.searchParams.set("signature", sign(url.pathname + url.search));
        return { url: url.href, expiresAt };
      },
    },
  };
}
