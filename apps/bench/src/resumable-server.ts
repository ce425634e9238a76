/**
 * Takes resumable uploads: `node resumable-server.js '{"root": …, "service": …}'`. At `/slot` it gives the URL of an
 * empty slot of Sluice, over the folder or over the service; at `/tus` `@tus/server` listens, with its store of
 * files. `/confirm` takes over what came to the slot; `/listings` tells how often the storage was listed since then.
 * Prints its port as a line of JSON when it listens.
 */
import { mkdir } from "node:fs/promises";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { join } from "node:path";
import { createSluice } from "@sluice/server";
import { createMemoryBackend, wrap } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createUploads, withUploads, type Slot } from "@sluice/uploads";
import { FileStore } from "@tus/file-store";
import { Server } from "@tus/server";
import { freePort } from "./lib/server-process.ts";
import type { Service } from "./lib/service.ts";

/** What the program is told. */
interface Options {
  readonly root: string;
  readonly service?: Service;
}

const { root, service } = JSON.parse(process.argv[2] ?? "{}") as Options;
const port = await freePort();
const folder = join(root, "sluice");
await mkdir(folder);
await mkdir(join(root, "tus"));

const storage = service
  ? (await import("./lib/service.ts")).openBackend(service, { writable: true })
  : createFsBackend({ root: folder, writable: true });
let listings = 0;
const counted = wrap(storage, {
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
  storage: counted,
  unscanned: "allow",
  maxBytes,
  sweepEveryMs: 3_600_000,
});
const handler = toNodeHandler(
  withUploads(withSluice({ fetch: async () => new Response() }, sluice), uploads),
);
const tus = new Server({
  path: "/tus",
  datastore: new FileStore({ directory: join(root, "tus") }),
});

let slot: Slot | undefined;

const routes: Readonly<Record<string, () => Promise<string>>> = {
  async "/slot"() {
    if (slot) await uploads.discard(slot.uploadId);
    slot = await uploads.reserve(undefined, { accept: [], maxBytes, maxFiles: 1 });
    listings = 0;
    return slot.url;
  },
  async "/confirm"() {
    if (!slot) throw new Error("bench: no slot");
    const files = await uploads.received(undefined, slot.uploadId);
    const [file] = await uploads.confirm(undefined, slot.uploadId, files);
    return `${file?.size ?? 0}`;
  },
  "/listings": async () => `${listings}`,
};

async function serve(request: IncomingMessage, response: ServerResponse): Promise<void> {
  const url = request.url ?? "/";
  if (url.startsWith("/tus")) return tus.handle(request, response);
  const route = routes[url];
  if (route === undefined) handler(request, response);
  else response.end(await route());
}

const server = createServer((request, response) => {
  serve(request, response).catch((error: unknown) => {
    console.error(error);
    response.destroy();
  });
});
server.requestTimeout = 0;
server.listen(port, "127.0.0.1", () => process.stdout.write(`${JSON.stringify({ port })}\n`));
