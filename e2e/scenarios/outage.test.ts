import { generateKey } from "@sluice/core";
import type { GrantOptions } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { Redis } from "ioredis";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { bytesOf } from "../bed/content.ts";
import { startFleet } from "../bed/fleet.ts";
import { expectSurvival, surviveOutages } from "../bed/outages.ts";
import { call, send } from "../bed/raw.ts";
import { hasRedis, startRedis } from "../bed/redis.ts";
import { startSite } from "../bed/site.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const content = bytesOf(5_000, "secret plans");
const files = { "plans.bin": content };
const patience = { timeout: 30_000 };

// it takes seconds until a Redis that forgets is trusted; one that remembers is in redemption.test.ts
test.runIf(isDeep && hasRedis)(
  "a Redis that forgets is stopped and started under load, and no URL is redeemed twice",
  async () => {
    await using redis = await startRedis();
    const shared = { path: redis.path, durable: false, timeoutMs: 500 };
    await using fleet = await startFleet({ files, size: 3, redis: shared, grant: { use: "once" } });
    const outages = { key: "plans.bin", content, cycles: 5, clients: 12, hangs: true };
    expectSurvival(await surviveOutages(fleet, redis, outages));
  },
);

describe.skipIf(!hasRedis)("a Redis that forgot what was redeemed", () => {
  const accounts = { "alice-token": { subject: "alice" } };
  const headers = { authorization: "Bearer alice-token" };
  const endpoint = "http://127.0.0.1:9/mcp";
  const keys = [generateKey()];

  interface ServeOptions {
    readonly redis: Redis;
    readonly durable?: boolean;
    readonly grant: GrantOptions;
    /** Folder of a server that was started before. */
    readonly root?: string;
  }

  /** A server of the same name and keys as the others. */
  async function serve({ redis, durable = false, grant, root }: ServeOptions) {
    const stores = createRedisStores({ redis, durable });
    const site = await startSite({
      accounts,
      ...(root === undefined ? { files } : { root }),
      sluice: { stores, keys, endpoint, grant, delivery: "downloadUrl", onError: () => {} },
    });
    onTestFinished(() => site[Symbol.asyncDispose]());
    return {
      root: site.root,
      async link() {
        const params = { uri: "files://site/plans.bin" };
        const options = { streaming: {}, token: "alice-token" };
        const { message } = await call(site.url, "resources/stream", params, options);
        return String(message?.result?.["downloadUrl"]);
      },
      get: (link: string) => send("GET", link.replace(endpoint, site.url), { headers }),
    };
  }

  test("gives nothing twice, unless it was said to remember; what needs no store goes on", async () => {
    await using server = await startRedis();
    const redis = new Redis({ path: server.path, retryStrategy: () => 20 });
    redis.on("error", () => {});
    onTestFinished(() => redis.disconnect());
    const credulous = await serve({ redis, durable: true, grant: { use: "once" } });
    const { root } = credulous;
    const careful = await serve({ redis, grant: { use: "once" }, root });
    const apart = await serve({ redis, grant: { revocable: false }, root });

    const link = await credulous.link();
    expect((await credulous.get(link)).status).toBe(200);
    expect((await credulous.get(link)).status).toBe(404);
    const lasting = await apart.link();
    await server.stop();
    expect((await apart.get(lasting)).bytes.equals(content)).toBe(true);
    expect((await careful.get(link)).status).toBe(503);
    await server.start();
    await vi.waitFor(() => redis.ping(), patience);
    expect([404, 503]).toContain((await careful.get(link)).status);
    // the mistake that is noticed above: nothing looks at how old this Redis is
    expect((await credulous.get(link)).status).toBe(200);
  });
});
