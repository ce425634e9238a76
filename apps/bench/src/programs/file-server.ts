/**
 * One static file server per process: `node file-server.js KIND DIRECTORY [CERTIFICATE KEY]`.
 */
import { lstatSync, read, readFileSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { createServer, type RequestListener, type ServerResponse } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { basename, join } from "node:path";
import { promisify } from "node:util";
import { getRequestListener } from "@hono/node-server";
import { serveStatic } from "@hono/node-server/serve-static";
import { readTarget } from "@sluice/core/internal";
import express from "express";
import { Hono } from "hono";
import send from "send";
import sirv from "sirv";
import { listen, wayOf } from "../lib/program.ts";

const [kind = "", directory = ".", certificate, key] = process.argv.slice(2);

/** Two free buffers for each transfer at work; they go back when it ends. */
const freeBuffers: [Buffer, Buffer][] = [];

/** Sends files through two buffers of this size each. */
function pumpWith(bufferBytes: number): RequestListener {
  return (request, response) => {
    const serve = async (): Promise<void> => {
      const file = await open(join(directory, readTarget(request.url!) ?? ""));
      const buffers = freeBuffers.pop() ?? [
        Buffer.allocUnsafeSlow(bufferBytes),
        Buffer.allocUnsafeSlow(bufferBytes),
      ];
      try {
        const { size } = await file.stat();
        response.writeHead(200, { "content-length": size });
        await pump(response, file.fd, { start: 0, end: size }, buffers);
      } finally {
        freeBuffers.push(buffers);
        await file.close();
      }
    };
    serve().catch(() => response.destroy());
  };
}

const kinds: Readonly<Record<string, () => RequestListener>> = {
  pump: () => pumpWith(512 * 1024),
  memory: () => {
    const bodies = new Map<string, Buffer>();
    return (request, response) => {
      const path = request.url ?? "/";
      const body = bodies.get(path) ?? readFileSync(join(directory, path));
      bodies.set(path, body);
      response.writeHead(200, { "content-length": body.byteLength }).end(body);
    };
  },
  "memory-look": () => {
    const kept = new Map<string, { body: Buffer; headers: string[]; changed: bigint }>();
    return (request, response) => {
      const path = join(directory, request.url ?? "/");
      const { ctimeNs } = lstatSync(path, { bigint: true });
      let file = kept.get(path);
      if (file?.changed !== ctimeNs) {
        const body = readFileSync(path);
        file = { body, headers: leastHeaders(path, body.byteLength), changed: ctimeNs };
        kept.set(path, file);
      }
      response.writeHead(200, file.headers).end(file.body);
    };
  },
  send: () => (request, response) => {
    send(request, request.url!, { root: directory }).pipe(response);
  },
  "send-1m": () => (request, response) => {
    // `send` hands its options on to createReadStream
    const options = { root: directory, highWaterMark: 1024 * 1024 };
    send(request, request.url!, options).pipe(response);
  },
  express: () => {
    const app = express();
    app.use(express.static(directory));
    return app as RequestListener;
  },
  sirv: () => {
    const serve = sirv(directory);
    return (request, response) => serve(request, response);
  },
  hono: () => {
    const app = new Hono();
    app.use("/*", serveStatic({ root: directory }));
    const answer = getRequestListener(app.fetch);
    return (request, response) => void answer(request, response);
  },
};

const readAt = promisify(read);

/**
 * Sends bytes `[start, end)` of a file through two reused buffers: one is being written while the
 * other fills. Nothing is checked: it is the ceiling that the real server is held against.
 */
async function pump(
  response: ServerResponse,
  fd: number,
  range: { readonly start: number; readonly end: number },
  buffers: readonly [Buffer, Buffer],
): Promise<void> {
  const fill = async (buffer: Buffer, position: number): Promise<number> => {
    const wanted = Math.min(buffer.length, range.end - position);
    if (wanted === 0) return 0;
    const { bytesRead } = await readAt(fd, buffer, 0, wanted, position);
    return bytesRead;
  };
  let position = range.start;
  let turn = 0;
  let filled = await fill(buffers[0], position);
  while (filled > 0) {
    const chunk = buffers[turn]!.subarray(0, filled);
    position += filled;
    turn = 1 - turn;
    [filled] = await Promise.all([fill(buffers[turn]!, position), write(response, chunk)]);
  }
  response.end();
}

function write(response: ServerResponse, chunk: Buffer): Promise<void> {
  return new Promise((resolve, reject) => {
    response.write(chunk, (error) => (error ? reject(error) : resolve()));
  });
}

/** As many headers as an answer of Sluice has, with values as long: names and values in turn. */
function leastHeaders(path: string, bytes: number): string[] {
  const name = basename(path);
  return [
    "Content-Type",
    "application/octet-stream",
    "Content-Disposition",
    `attachment; filename="${name}"`,
    "MCP-Resource-Uri",
    `files://bench/${name}`,
    "Accept-Ranges",
    "bytes",
    "Content-Length",
    String(bytes),
    "ETag",
    '"0123456789abcdefghijklmnopq"',
    "Last-Modified",
    new Date(0).toUTCString(),
    "Cache-Control",
    "private, no-store, no-transform",
    "X-Content-Type-Options",
    "nosniff",
    "Content-Security-Policy",
    "default-src 'none'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'; sandbox",
    "Cross-Origin-Resource-Policy",
    "same-origin",
    "Referrer-Policy",
    "no-referrer",
    "X-Robots-Tag",
    "noindex, nofollow",
    "Vary",
    "Origin",
  ];
}

const listener = wayOf(kinds, kind)();
const server =
  certificate !== undefined && key !== undefined
    ? createTlsServer({ cert: await readFile(certificate), key: await readFile(key) }, listener)
    : createServer(listener);
listen(server);
