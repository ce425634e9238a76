import { createKeyRing, formatKey, generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { createMemoryBackend } from "@sluice/storage";
import { Redis } from "ioredis";
import { describe, expect, test } from "vitest";
import { hasRedis, startRedis } from "../../../e2e/bed/redis.ts";

const storage = createMemoryBackend({ "a.txt": "ten bytes." });
const keysOfAllProcesses = createKeyRing(formatKey(generateKey()));
const principal = () => ({ issuer: "https://id.example.com", subject: "alice", clientId: "" });

describe.runIf(hasRedis)("the example of the README", () => {
  test("makes a Sluice whose state is in Redis", async () => {
    await using server = await startRedis();
    const { path } = server;
    // #region use
    const redis = new Redis({ path, enableOfflineQueue: false, socketTimeout: 5_000 });
    const stores = createRedisStores({ redis });
    const sluice = createSluice({
      storage: stores.shareChanges(storage, { name: "files" }),
      baseUri: "files://demo/",
      endpoint: "https://files.example.com/mcp",
      keys: keysOfAllProcesses,
      stores,
      principal,
    });
    // #endregion
    await new Promise((resolve) => redis.once("ready", resolve));
    const sessionId = "a session";
    const ann = { issuer: "https://id.example.com", subject: "ann", clientId: "app", sessionId };
    await sluice.host.bindSession({ principal: ann });
    await sluice.endSession(sessionId);
    expect(await redis.keys("{sluice}:1:session:*")).toHaveLength(1);
    redis.disconnect();
  });
});
