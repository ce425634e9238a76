// The stores of the page about uploads on many processes: run by e2e/examples.test.ts.
// #region shared
import { once } from "node:events";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { createSluice, createUploads, type StorageBackend, type WritableBackend } from "sluice";

const issuer = "https://id.example.com";

/** What every process makes, of the same keys, Redis and storages. */
export async function createShared(
  redisPath: string,
  keys: string,
  { served, received }: { served: StorageBackend; received: WritableBackend },
) {
  const redis = new Redis({ path: redisPath, enableOfflineQueue: false, socketTimeout: 5_000 });
  await once(redis, "ready");
  const sluice = createSluice({
    storage: served,
    baseUri: "files://demo/",
    endpoint: "https://files.example.com/mcp",
    keys,
    stores: createRedisStores({ redis }),
    principal: ({ authInfo }) =>
      authInfo && { issuer, subject: String(authInfo.extra?.sub), clientId: authInfo.clientId },
  });
  const uploads = createUploads(sluice, {
    storage: received,
    scan: "none",
  });
  return { redis, sluice, uploads };
}
// #endregion
