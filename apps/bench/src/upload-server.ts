/**
 * Takes uploads in several ways: `node upload-server.js DIRECTORY`. Prints its port as a line of JSON
 * when it listens. Each file is removed as soon as it was answered.
 */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { open, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { join } from "node:path";
import type { Readable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy } from "@fastify/busboy";
import { formatKey, generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads, withUploads, type Slot } from "@sluice/uploads";
import busboy from "busboy";
import multer from "multer";
import { freePort } from "./lib/server-process.ts";

const [root = "."] = process.argv.slice(2);
const port = await freePort();

type Way = (req: IncomingMessage, res: ServerResponse, path: string) => Promise<void>;

async function saveHashed(stream: Readable, path: string, res: ServerResponse): Promise<void> {
  const hash = createHash("sha256");
  stream.on("data", (chunk: Uint8Array) => hash.update(chunk));
  await pipeline(stream, createWriteStream(path));
  res.setHeader("sha256", hash.digest("hex"));
  await using file = await open(path);
  await file.sync();
}

const store = multer({ storage: multer.diskStorage({ destination: root }) }).single("file");

const ways: Readonly<Record<string, Way>> = {
  pipeline: (req, _res, path) => pipeline(req, createWriteStream(path)),
  "pipeline-fsync": async (req, _res, path) => {
    await pipeline(req, createWriteStream(path));
    const file = await open(path);
    await file.sync();
    await file.close();
  },
  busboy: (req, _res, path) =>
    new Promise((resolve, reject) => {
      const parser = busboy({ headers: req.headers });
      parser.on("file", (_name, stream) => {
        pipeline(stream, createWriteStream(path)).then(resolve, reject);
      });
      req.pipe(parser);
    }),
  // the least that does what Sluice does, but for the look at the type
  "busboy-sha256": (req, res, path) =>
    new Promise((resolve, reject) => {
      const parser = busboy({ headers: req.headers });
      parser.on(
        "file",
        (_name, stream) => void saveHashed(stream, path, res).then(resolve, reject),
      );
      req.pipe(parser);
    }),
  "fastify-busboy": (req, _res, path) =>
    new Promise((resolve, reject) => {
      const type = { "content-type": req.headers["content-type"] ?? "" };
      const parser = new Busboy({ headers: type });
      parser.on("file", (_name, stream) => {
        pipeline(stream, createWriteStream(path)).then(resolve, reject);
      });
      req.pipe(parser);
    }),
  multer: (req, res) =>
    new Promise((resolve, reject) => {
      store(req as never, res as never, (error: unknown) => {
        const { file } = req as { file?: { path: string } };
        if (error || !file) return reject(error ?? new Error("multer: no file"));
        resolve(file.path);
      });
    }).then((path) => rm(path as string)),
};

const sluice = createSluice({
  storage: createMemoryBackend(),
  baseUri: "files://bench/",
  endpoint: `http://127.0.0.1:${port}/mcp`,
  keys: formatKey(generateKey()),
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root, writable: true }),
  unscanned: "allow",
  maxBytes: 4 * 2 ** 30,
});
const handler = toNodeHandler(
  withUploads(withSluice({ fetch: async () => new Response() }, sluice), uploads),
);

let files = 0;
let slot: Slot | undefined;
const server = createServer((req, res) => {
  const name = req.url?.slice(1) ?? "";
  if (name.startsWith("mcp/")) return handler(req, res);
  const serve = async (): Promise<void> => {
    // a slot is for one upload, so the one before goes
    if (name === "slot") {
      if (slot) await uploads.discard(slot.uploadId);
      slot = await uploads.reserve(undefined, { accept: [], maxBytes: 4 * 2 ** 30, maxFiles: 1 });
      return void res.end(slot.url);
    }
    const path = join(root, `${files++}.bin`);
    await ways[name]!(req, res, path);
    res.end();
    await rm(path, { force: true });
  };
  serve().catch((error: unknown) => {
    console.error(error);
    res.destroy();
  });
});
server.requestTimeout = 0;
server.listen(port, "127.0.0.1", () => {
  const { port: listening } = server.address() as AddressInfo;
  process.stdout.write(`${JSON.stringify({ port: listening })}\n`);
});
