import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { eventStoreCases, stateStoreCases, uploadStoreCases } from "@sluice/state/conformance";
import { type RedisClient } from "@sluice/state-redis";
import {
  checkRedis,
  createRedisEventStore,
  createRedisStateStore,
  createRedisUploadStore,
  shareChanges,
} from "@sluice/state-redis/internal";
import { createMemoryBackend } from "@sluice/storage";
import { Cluster, Redis } from "ioredis";
import { createClientPool, createCluster, createSentinel } from "redis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { hasRedis, startRedis } from "../../../e2e/bed/redis.ts";
import { freePorts, host } from "./redis-bed.ts";

describe.runIf(hasRedis)(
  "stores through the other clients of both libraries",
  { tags: "slow" },
  () => {
    const closing: (() => unknown)[] = [];
    const clients = new Map<string, RedisClient>();
    let spaces = 0;

    beforeAll(async () => {
      const [clusterPort, busPort, primaryPort, sentinelPort] = await freePorts(4);
      const ports = ["--port", `${clusterPort}`, "--cluster-port", `${busPort}`];
      const cluster = closed(
        await startRedis({
          settings: [
            "--bind",
            host,
            ...ports,
            "--cluster-enabled",
            "yes",
            "--cluster-announce-ip",
            host,
          ],
        }),
      );
      const node = new Redis({ path: cluster.path });
      await node.call("CLUSTER", "ADDSLOTSRANGE", "0", "16383");
      while (!(await node.cluster("INFO")).includes("cluster_state:ok"))
        await new Promise((resolve) => setTimeout(resolve, 50));
      node.disconnect();
      const primary = ["--bind", host, "--port", `${primaryPort}`];
      closed(await startRedis({ settings: primary }));
      closed(await startSentinel(sentinelPort!, primaryPort!));

      const ofCluster = createCluster({ rootNodes: [{ socket: { host, port: clusterPort! } }] });
      const ofSentinel = createSentinel({
        name: "primary",
        sentinelRootNodes: [{ host, port: sentinelPort! }],
      });
      const pool = createClientPool({ socket: { host, port: primaryPort! } });
      for (const one of [ofCluster, ofSentinel, pool]) {
        one.on("error", () => {});
        await one.connect();
        closing.push(() => one.destroy());
      }
      const ofIoredis = new Cluster([{ host, port: clusterPort! }]);
      closing.push(() => ofIoredis.disconnect());
      clients.set("createCluster", ofCluster);
      clients.set("createSentinel", ofSentinel);
      clients.set("createClientPool", pool);
      clients.set("Cluster of ioredis", ofIoredis);
    }, 60_000);
    afterAll(async () => {
      for (const close of closing.toReversed()) await close();
    });

    function closed<Server extends AsyncDisposable>(server: Server): Server {
      closing.push(() => server[Symbol.asyncDispose]());
      return server;
    }

    const options = (name: string) => ({
      redis: clients.get(name)!,
      prefix: `{test ${(spaces += 1)}}:`,
    });

    test.each(["createCluster", "createSentinel", "createClientPool", "Cluster of ioredis"])(
      "%s keeps every rule of every store",
      async (name) => {
        await checkRedis(options(name));
        for (const { run } of stateStoreCases)
          await run((limits) =>
            createRedisStateStore({ ...options(name), durable: true, ...limits }),
          );
        for (const { run } of eventStoreCases)
          await run((limits) => createRedisEventStore({ ...options(name), ...limits }));
        for (const { run } of uploadStoreCases)
          await run(() => createRedisUploadStore(options(name)));
        const over = new AbortController();
        const shared = shareChanges(createMemoryBackend({ a: "1" }), options(name), {
          name: "n",
        });
        for await (const batch of shared.watch!({ signal: over.signal })) {
          expect(batch).not.toHaveProperty("reset");
          over.abort();
        }
      },
      60_000,
    );
  },
);

/** A sentinel of one primary. */
async function startSentinel(port: number, primaryPort: number): Promise<AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-sentinel-"));
  const file = join(folder, "sentinel.conf");
  const lines = [`bind ${host}`, `port ${port}`, `dir ${folder}`];
  await writeFile(file, [...lines, `sentinel monitor primary ${host} ${primaryPort} 1`].join("\n"));
  const child = spawn("redis-server", [file, "--sentinel"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  for await (const chunk of child.stdout) if (String(chunk).includes("+monitor")) break;
  return {
    async [Symbol.asyncDispose]() {
      const exited = once(child, "exit");
      child.kill("SIGKILL");
      await exited;
      await rm(folder, { recursive: true, force: true });
    },
  };
}
