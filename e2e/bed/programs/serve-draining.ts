/**
 * One of several processes that serve a folder at the same endpoint, on a Unix socket. Tells its parent when it
 * listens; on SIGTERM it drains, tells how many answers it cut, and ends.
 */
import { once } from "node:events";
import { rm } from "node:fs/promises";
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http/internal";
import { drainServer, hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { Redis } from "ioredis";

/** What the parent sets. */
export interface ServeDrainingSettings {
  /** Socket to listen on. */
  readonly socket: string;
  /** Where clients find the endpoint, whichever process answers there. */
  readonly endpoint: string;
  /** Keys, as `formatKey` writes them. */
  readonly keys: string;
  /** Socket of the Redis. */
  readonly redis: string;
  /** The folder. */
  readonly root: string;
  /** How long a drain takes at most. */
  readonly deadlineMs: number;
}

/** What it says when it ends. */
export interface DrainReport {
  readonly cut: number;
  /** Faults that it met. */
  readonly errors: readonly string[];
}

const settings = JSON.parse(process.argv[2]!) as ServeDrainingSettings;
const { socket, endpoint, keys, root, deadlineMs } = settings;
const redis = new Redis(settings.redis);
const errors: string[] = [];
const sluice = createSluice({
  storage: createFsBackend({ root, racyMs: 0 }),
  baseUri: "files://site/",
  endpoint,
  keys,
  stores: createRedisStores({ redis, durable: true }),
  delivery: ({ client }) => client.prefer?.[0] ?? "direct",
  onError: (error) => void errors.push(String(error)),
});
const mcp = createMcpHandler(() =>
  sluice.attach(new McpServer({ name: "one of many", version: "1" })),
);
const server = hardenServer(createServer(toNodeHandler(withSluice(mcp, sluice))));
// one that was killed leaves it
await rm(socket, { force: true });
server.listen(socket);
await once(server, "listening");

async function drain(): Promise<void> {
  const { cut } = await drainServer(server, { deadlineMs });
  redis.disconnect();
  process.send!({ cut, errors } satisfies DrainReport, () => process.disconnect());
}

process.once("SIGTERM", () => void drain());
process.once("disconnect", () => process.exit());
process.send!("listening");
