/**
 * An MCP server with Sluice over a folder: `node sluice-server.js '{"root": …}'`, the options of
 * `startSluiceServer` as JSON. Prints its port and endpoint as a line of JSON when it listens.
 */
import { readFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { McpServer } from "@modelcontextprotocol/server";
import { formatKey, generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { createHandler } from "@sluice/transport-http";
import { toNodeHandler } from "@sluice/transport-http/node";
import { freePort } from "../lib/program.ts";
import type { SluiceServerOptions } from "../lib/sluice.ts";

interface Options extends SluiceServerOptions {
  readonly root: string;
}

const options = JSON.parse(process.argv[2] ?? "{}") as Options;
const { root, delivery = "direct", tls, storageOrigin, service } = options;
const port = options.port ?? (await freePort());
const endpoint = `${tls ? "https" : "http"}://127.0.0.1:${options.publicPort ?? port}/mcp`;

// loaded only where they are used: the SDKs of clouds would add to the memory of all others
const folder = service
  ? (await import("../lib/service.ts")).openBackend(service)
  : createFsBackend({ root });
const storage: StorageBackend = storageOrigin
  ? {
      ...folder,
      // stands for a storage service that signs URLs
      presign: async (key, { expiresInMs }) => ({
        url: `${storageOrigin}/${key}?signature=bench`,
        expiresAt: Date.now() + expiresInMs,
      }),
    }
  : folder;

const baseUri = "files://bench/";
const others = Array.from({ length: (options.mounts ?? 1) - 1 }, (_, n) => ({
  baseUri: `files://bench-${n}/`,
  storage: createFsBackend({ root }),
}));

const sluice = createSluice({
  ...(options.mounts === undefined
    ? { storage, baseUri }
    : { mounts: [...others, { baseUri, storage }] }),
  endpoint,
  keys: formatKey(generateKey()),
  delivery,
  // an outside program repeats one URL over and over
  grant: { use: "window", ttlMs: 15 * 60_000 },
  limits: {
    streams: { perPrincipal: options.streams ?? 1024, perProcess: options.streams ?? 1024 },
  },
  access: (_principal, uri) => (uri.endsWith("/secret") ? "hide" : "allow"),
  audit: () => {},
  ...(storageOrigin && { redirectOrigins: [storageOrigin] }),
});
const create = (): McpServer => sluice.attach(new McpServer({ name: "bench", version: "0.0.0" }));
const handler = toNodeHandler(
  createHandler({ sluice, create, sessions: false }),
  options.offload && { offload: { root, ...options.offload } },
);
const server = tls
  ? createTlsServer(
      { cert: await readFile(tls.certificate), key: await readFile(tls.key) },
      handler,
    )
  : createServer(handler);
server.listen(port, "127.0.0.1", () => console.log(JSON.stringify({ port, endpoint })));
