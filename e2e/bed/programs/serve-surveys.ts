/** A server of surveys in a process of its own, whose streams are in Redis. Tells its parent the port. */
import { createServer } from "node:http";
import { createRedisStores } from "@sluice/state-redis";
import { toNodeHandler } from "@sluice/transport-http/node";
import { Redis } from "ioredis";
import { listen } from "../listen.ts";
import { createResuming } from "../resuming.ts";

/** What the parent sets. */
export interface ServeSurveysSettings {
  /** Socket of the Redis. */
  readonly redis: string;
  /** Where clients find the endpoint, whichever process answers there. */
  readonly endpoint: string;
  /** Keys, as `formatKey` writes them. */
  readonly keys: string;
  readonly workMs: number;
  readonly leaseMs: number;
  readonly reruns: boolean;
}

const settings = JSON.parse(process.argv[2] ?? "{}") as ServeSurveysSettings;
const { endpoint, keys, workMs, leaseMs, reruns } = settings;
const redis = new Redis(settings.redis);
const { events: store } = createRedisStores({ redis });
const server = createResuming({
  endpoint,
  workMs,
  reruns,
  store,
  sluice: { keys },
  resume: { leaseMs },
});
const { port } = await listen(createServer(toNodeHandler(server.handler)));
process.on("message", () =>
  process.send?.({ starts: server.starts(), errors: server.errors.map(String) }),
);
process.on("disconnect", () => process.exit());
process.send?.({ port });
