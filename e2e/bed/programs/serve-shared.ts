/**
 * One of several servers behind one name: they share a folder, a file of keys and, where there is one, a
 * Redis. Its parent is told where it serves, and may have many tokens made or tried at once.
 */
import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createMemoryStores } from "@sluice/state";
import type { GrantOptions } from "@sluice/server";
import { openKeyFile } from "@sluice/server/node";
import { createRedisStores, type RedisClient } from "@sluice/state-redis";

import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { Redis } from "ioredis";
import { listen } from "../listen.ts";
import { createSharedServer } from "../token-desk.ts";
import { watchFaults } from "../watch.ts";

/** What the parent sets. */
export interface ServeSharedSettings {
  readonly root: string;
  readonly keysFile: string;
  readonly redis?: {
    /** Its socket. */
    readonly path: string;
    readonly durable: boolean;
    readonly timeoutMs: number;
  };
  readonly grant: GrantOptions;
}

/** What the parent may ask; the answer has the same number. */
export type SharedQuestion = { readonly number: number } & (
  | { readonly mint: number; readonly key: string }
  | { readonly redeem: readonly string[] }
  | { readonly about: "keys" | "state" }
);

/** How it is. */
export interface SharedState {
  /** Commands that Redis has not answered yet. */
  readonly waiting: number;
  readonly faults: readonly string[];
}

const settings = JSON.parse(process.argv[2] ?? "{}") as ServeSharedSettings;
const { root, redis: shared, grant } = settings;
const faults = watchFaults();
const { keys } = await openKeyFile({ path: settings.keysFile });
const stores = shared ? await openStores(shared) : createMemoryStores();
let waiting = 0;

async function openStores({ path, ...options }: NonNullable<ServeSharedSettings["redis"]>) {
  const redis = new Redis({ path, enableOfflineQueue: false, retryStrategy: () => 20 });
  redis.on("error", () => {});
  await new Promise<void>((resolve) => void redis.once("ready", () => resolve()));
  const counting: RedisClient = {
    async call(command, ...args) {
      waiting += 1;
      try {
        return await redis.call(command, ...args);
      } finally {
        waiting -= 1;
      }
    },
  };
  return createRedisStores({ redis: counting, ...options });
}

const { sluice, desk } = createSharedServer({
  storage: createFsBackend({ root, racyMs: 0 }),
  keys,
  stores,
  grant,
});
const mcp = createMcpHandler(() =>
  sluice.attach(new McpServer({ name: "shared", version: "1.0.0" })),
);
const { port } = await listen(createServer(toNodeHandler(withSluice(mcp, sluice))));

async function answer(question: SharedQuestion): Promise<unknown> {
  if ("mint" in question) return desk.mint(question.key, question.mint);
  if ("redeem" in question) return desk.redeem(question.redeem);
  if (question.about === "keys") return desk.keys();
  return { waiting, faults: faults() } satisfies SharedState;
}

process.on("message", (question: SharedQuestion) => {
  const { number } = question;
  void answer(question).then((answered) => process.send?.({ number, answer: answered }));
});
process.on("disconnect", () => process.exit());
process.send?.({ port });
