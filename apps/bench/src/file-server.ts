/**
 * One static file server per process: `node file-server.js KIND DIRECTORY [CERTIFICATE KEY]`.
 * Prints its port as a line of JSON when it listens.
 */
import { lstatSync, readFileSync } from "node:fs";
import { open, readFile } from "node:fs/promises";
import { createServer, type RequestListener } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import { getRequestListener } from "@hono/node-server";
import { serveStatic } from "@hono/node-server/serve-static";
import { readTarget } from "@sluice/core";
import express from "express";
import { Hono } from "hono";
import send from "send";
import sirv from "sirv";
import { leastHeaders } from "./lib/least-headers.ts";
import { pump } from "./lib/pump.ts";

const [kind = "", directory = ".", certificate, key] = process.argv.slice(2);

/** Two free buffers for each transfer at work; they go back when it ends. */
const freeBuffers: [Buffer, Buffer][] = [];

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
  "pump-64k": () => pumpWith(64 * 1024),
  "pump-256k": () => pumpWith(256 * 1024),
  "pump-1m": () => pumpWith(1024 * 1024),
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
    const listen = getRequestListener(app.fetch);
    return (request, response) => void listen(request, response);
  },
};

const listener = kinds[kind]?.();
if (listener === undefined) throw new TypeError(`file-server: no kind "${kind}"`);
const server =
  certificate !== undefined && key !== undefined
    ? createTlsServer({ cert: await readFile(certificate), key: await readFile(key) }, listener)
    : createServer(listener);
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
