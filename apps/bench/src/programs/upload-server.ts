/**
 * Takes uploads: `node upload-server.js '{"root": …}'`. At `/slot` it gives the URL of an empty slot of Sluice, over the
 * folder or over a `service`; `/confirm` takes over what came to it, and `/listings` tells how often the storage was
 * listed since then, when it is `counted`. At `/tus` `@tus/server` listens, with its store of files. At the other paths a
 * file comes in one way, and is removed as soon as it was answered.
 */
import { createHash } from "node:crypto";
import { createWriteStream } from "node:fs";
import { mkdir, open, rm } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import type { Readable, Writable } from "node:stream";
import { pipeline } from "node:stream/promises";
import { Busboy } from "@fastify/busboy";
import { createSluice } from "@sluice/server";
import { createMemoryBackend, wrapBackend, type WritableBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads, type Slot } from "@sluice/uploads";
import { FileStore } from "@tus/file-store";
import { Server } from "@tus/server";
import busboy from "busboy";
import multer from "multer";
import { freePort, listen, wayOf } from "../lib/program.ts";
import type { Service } from "../lib/service.ts";

/** What the program is told. */
interface Options {
  readonly root: string;
  readonly service?: Service;
  readonly counted?: boolean;
}

const { root, service, counted } = JSON.parse(process.argv[2] ?? "{}") as Options;
const port = await freePort();
const folder = join(root, "sluice");
await mkdir(folder);
await mkdir(join(root, "tus"));

const storage = service
  ? (await import("../lib/service.ts")).openBackend(service, { writable: true })
  : createFsBackend({ root: folder, writable: true });
let listings = 0;
const countListings = () =>
  wrapBackend(storage, {
    list: (list) => (query) => {
      listings += 1;
      return list(query);
    },
  });

const maxBytes = 4 * 2 ** 30;
const sluice = createSluice({
  storage: createMemoryBackend(),
  baseUri: "files://bench/",
  endpoint: `http://127.0.0.1:${port}/mcp`,
  keys: "ephemeral",
  onWarning: () => {},
});
const uploads = createUploads(sluice, {
  storage: (counted ? countListings() : storage) as WritableBackend,
  scan: "none",
  maxBytes,
  sweepIntervalMs: 3_600_000,
});
const handler = toNodeHandler(createHandler({ sluice, uploads }));
const tus = new Server({
  path: "/tus",
  datastore: new FileStore({ directory: join(root, "tus") }),
});

let slot: Slot | undefined;
const questions: Readonly<Record<string, () => Promise<string>>> = {
  // a slot is for one upload, so the one before goes
  async "/slot"() {
    if (slot) await uploads.discard(slot.uploadId);
    slot = await uploads.reserve(undefined, { accept: [], maxBytes, maxFiles: 1 });
    listings = 0;
    return slot.url;
  },
  async "/confirm"() {
    if (!slot) throw new Error("bench: no slot");
    const received = await uploads.received(undefined, slot.uploadId);
    const [file] = await uploads.confirm(undefined, slot.uploadId, received);
    return `${file?.size ?? 0}`;
  },
  "/listings": async () => `${listings}`,
};

type Way = (req: IncomingMessage, res: ServerResponse, path: string) => Promise<void>;

async function flush(path: string): Promise<void> {
  await using file = await open(path);
  await file.sync();
}

const save = (from: Readable, path: string): Promise<void> =>
  pipeline(from, createWriteStream(path));

async function saveHashed(from: Readable, path: string, res: ServerResponse): Promise<void> {
  const hash = createHash("sha256");
  from.on("data", (chunk: Uint8Array) => hash.update(chunk));
  await save(from, path);
  res.setHeader("sha256", hash.digest("hex"));
  await flush(path);
}

/** Resolves when the one file of a form is saved. */
function parse(
  req: IncomingMessage,
  parser: Writable,
  take: (file: Readable) => Promise<void>,
): Promise<void> {
  return new Promise((resolve, reject) => {
    parser.on("file", (_name: string, file: Readable) => void take(file).then(resolve, reject));
    req.pipe(parser);
  });
}

const store = multer({ storage: multer.diskStorage({ destination: root }) }).single("file");

const ways: Readonly<Record<string, Way>> = {
  pipeline: (req, _res, path) => save(req, path),
  async "pipeline-fsync"(req, _res, path) {
    await save(req, path);
    await flush(path);
  },
  busboy: (req, _res, path) =>
    parse(req, busboy({ headers: req.headers }), (file) => save(file, path)),
  // the least that does what Sluice does, but for the look at the type
  "busboy-sha256": (req, res, path) =>
    parse(req, busboy({ headers: req.headers }), (file) => saveHashed(file, path, res)),
  "fastify-busboy"(req, _res, path) {
    const headers = { "content-type": req.headers["content-type"] ?? "" };
    return parse(req, new Busboy({ headers }), (file) => save(file, path));
  },
  async multer(req, res) {
    await new Promise<void>((resolve, reject) => {
      store(req as never, res as never, (error: unknown) => (error ? reject(error) : resolve()));
    });
    const { file } = req as { file?: { path: string } };
    if (!file) throw new Error("multer: no file");
    await rm(file.path);
  },
};

let files = 0;
async function serve(req: IncomingMessage, res: ServerResponse): Promise<void> {
  const url = req.url ?? "/";
  if (url.startsWith("/mcp/")) return handler(req, res);
  if (url.startsWith("/tus")) return tus.handle(req, res);
  const question = questions[url];
  if (question) return void res.end(await question());
  const path = join(root, `${files++}.bin`);
  await wayOf(ways, url.slice(1))(req, res, path);
  res.end();
  await rm(path, { force: true });
}

const server = createServer((req, res) => {
  serve(req, res).catch((error: unknown) => {
    console.error(error);
    res.destroy();
  });
});
server.requestTimeout = 0;
listen(server, port);
