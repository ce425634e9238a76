// One of several processes, of the guides about many processes: run by e2e/examples.test.ts.
// #region program
import { once } from "node:events";
import { McpServer } from "@modelcontextprotocol/server";
import { createResume } from "@sluice/resume";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { createSluice, createUploads, type StorageBackend, type WritableBackend } from "sluice";
import { openAuditFile, openKeyFile, serve, type ServeOptions, type Serving } from "sluice/node";

const issuer = "https://id.example.com";

/** Only `port` and `auditFile` differ between the processes. */
export interface ProcessOptions extends Required<Pick<ServeOptions, "port" | "bearer">> {
  readonly endpoint: string;
  readonly redisUrl: string;
  readonly keysFile: string;
  readonly auditFile: string;
  readonly served: StorageBackend;
  readonly received: WritableBackend;
}

export async function startProcess(options: ProcessOptions) {
  const { endpoint, port, bearer, served, received } = options;
  const redis = new Redis(options.redisUrl, { enableOfflineQueue: false, socketTimeout: 5_000 });
  redis.on("error", (error) => console.error(`redis: ${error.message}`));
  await once(redis, "ready");
  const stores = createRedisStores({ redis });
  await stores.check();
  const sluice = createSluice({
    storage: served,
    baseUri: "files://demo/",
    endpoint,
    clientAddress: 1,
    keys: await openKeyFile({ path: options.keysFile }),
    audit: await openAuditFile({ path: options.auditFile }),
    stores,
    principal: ({ authInfo }) =>
      authInfo && { issuer, subject: String(authInfo.extra?.sub), clientId: authInfo.clientId },
  });
  const uploads = createUploads(sluice, { storage: received, scan: "none" });
  const create = () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }));
  const resume = createResume();
  const running = await serve(sluice, create, { port, bearer, uploads, resume });
  process.once("SIGTERM", () => void shutDown(running, redis));
  return { running, redis, uploads };
}
// #endregion

// #region close
export async function shutDown(running: Serving, redis: Redis): Promise<void> {
  try {
    // also closes uploads, resume and the Sluice, which need Redis until then
    const { cut } = await running.close({ deadlineMs: 25_000 });
    console.log(`${cut} responses were cut`);
  } catch (error) {
    console.error("closing failed:", error);
    process.exitCode = 1;
  } finally {
    redis.disconnect();
  }
}
// #endregion
