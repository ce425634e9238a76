/** One of several servers that take uploads into one folder, and share a Redis. Its parent is told where it serves. */
import { createServer } from "node:http";
import { createSluice } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { createMemoryBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http/internal";
import { hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { createUploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { Redis } from "ioredis";
import { listen } from "../listen.ts";

/** What the parent sets. */
export interface ServeUploadsSettings {
  readonly root: string;
  readonly endpoint: string;
  readonly keys: string;
  /** Socket of the Redis. */
  readonly redis: string;
}

/** What it says first. */
export interface ServeUploadsHello {
  readonly port: number;
  /** Slots that need no sign-in. */
  readonly slots: readonly string[];
}

const {
  root,
  endpoint,
  keys,
  redis: path,
} = JSON.parse(process.argv[2] ?? "{}") as ServeUploadsSettings;
const redis = new Redis({ path, enableOfflineQueue: false, retryStrategy: () => 20 });
redis.on("error", () => {});
await new Promise<void>((resolve) => void redis.once("ready", () => resolve()));
const sluice = createSluice({
  storage: createMemoryBackend(),
  baseUri: "files://site/",
  endpoint,
  keys,
  anonymous: true,
  onWarning: () => {},
  onError: () => {},
});
const uploads = createUploads(sluice, {
  storage: createFsBackend({ root, writable: true }),
  stores: createRedisStores({ redis, timeoutMs: 1_000 }),
  scan: "none",
  // the places of killed processes are taken for a minute
  limits: { requests: { perPrincipal: 50 } },
});
const terms = { accept: [], maxBytes: 2 ** 26, maxFiles: 1 };
const handler = withUploads(withSluice({ fetch: async () => new Response() }, sluice), uploads);
const { port } = await listen(hardenServer(createServer(toNodeHandler(handler))));
const slots = await Promise.all(
  Array.from(
    { length: 50 },
    async () => (await uploads.reserve(undefined, terms, { ttlMs: 900_000 })).url,
  ),
);
process.on("disconnect", () => process.exit());
process.send?.({ port, slots } satisfies ServeUploadsHello);
