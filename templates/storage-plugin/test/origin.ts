import { createHash } from "node:crypto";
import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import type { Faults } from "@sluice/storage/conformance";

interface StoredObject {
  readonly content: Uint8Array;
  readonly headers: Readonly<Record<string, string>>;
}

/** A web server in this process, with the faults that real ones have. */
export interface Origin extends AsyncDisposable {
  readonly baseUrl: string;
  readonly objects: Map<string, StoredObject>;
  readonly faults: Faults;
  readonly countRequests: () => number;
  readonly countBytes: () => number;
}

/** The fault of the next answer. */
type Fault = (response: ServerResponse, content: Uint8Array) => void;

export async function startOrigin(): Promise<Origin> {
  const objects = new Map<string, StoredObject>();
  const denied = new Set<string>();
  let requests = 0;
  let bytes = 0;
  let refusal: { readonly status: number; readonly retryAfter?: string } | undefined;
  let bodyFault: Fault | undefined;
  let ignoresRange = false;

  const answer = (request: IncomingMessage, response: ServerResponse): void => {
    requests++;
    const refused = refusal;
    refusal = undefined;
    if (refused) {
      if (refused.retryAfter) response.setHeader("retry-after", refused.retryAfter);
      return void response.writeHead(refused.status).end();
    }
    const path = (request.url ?? "").slice("/files/".length);
    if (path === "index.json") return void response.end(JSON.stringify([...objects.keys()]));
    const key = path.split("/").map(decodeURIComponent).join("/");
    if (denied.has(key)) return void response.writeHead(403).end();
    const object = objects.get(key);
    if (!object) return void response.writeHead(404).end();

    const { content, headers } = object;
    const etag = `"${createHash("sha256").update(content).digest("base64url")}"`;
    const { "if-match": ifMatch, range } = request.headers;
    if (ifMatch !== undefined && ifMatch !== etag) return void response.writeHead(412).end();
    for (const [name, value] of Object.entries({ ...headers, etag, "accept-ranges": "bytes" }))
      response.setHeader(name, value);
    const size = content.byteLength;
    const [, first, last] = /^bytes=(\d+)-(\d*)$/.exec(range ?? "") ?? [];
    let part = content;
    if (first !== undefined && !ignoresRange) {
      const start = Number(first);
      if (start >= size)
        return void response.writeHead(416, { "content-range": `bytes */${size}` }).end();
      const end = last ? Math.min(Number(last) + 1, size) : size;
      part = content.subarray(start, end);
      response.statusCode = 206;
      response.setHeader("content-range", `bytes ${start}-${end - 1}/${size}`);
    }
    ignoresRange = false;
    response.setHeader("content-length", part.byteLength);
    if (request.method === "HEAD") return void response.end();
    const fault = bodyFault;
    bodyFault = undefined;
    bytes += part.byteLength;
    if (fault) fault(response, part);
    else response.end(part);
  };

  const server = createServer((request, response) => {
    try {
      answer(request, response);
    } catch {
      // a target that no key has
      response.writeHead(400).end();
    }
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  return {
    baseUrl: `http://127.0.0.1:${port}/files/`,
    objects,
    faults: {
      reset: (at) =>
        void (bodyFault = (response, part) => {
          response.write(part.subarray(0, at), () => response.socket?.resetAndDestroy());
        }),
      stall: (at) =>
        void (bodyFault = (response, part) => void response.write(part.subarray(0, at))),
      truncate: (at) =>
        void (bodyFault = (response, part) => {
          response.write(part.subarray(0, at), () => response.socket?.end());
        }),
      ignoreRange: () => void (ignoresRange = true),
      throttle: (retryAfter) => void (refusal = { status: 429, retryAfter }),
      fail: () => void (refusal = { status: 500 }),
      deny: (key) => void denied.add(key),
    },
    countRequests: () => requests,
    countBytes: () => bytes,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}
