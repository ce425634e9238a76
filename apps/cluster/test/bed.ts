import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { inject } from "vitest";
import { bytesOf } from "../../../e2e/bed/content.ts";
import { hasNginx } from "../../../e2e/bed/nginx.ts";
import { hasRedis } from "../../../e2e/bed/redis.ts";
import { startS3StandIn } from "../../../packages/storage-s3/test/stand-in/stand-in.ts";
import { startCluster, type Cluster } from "../src/lib/start-cluster.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.log("SLUICE_DEEP is not set: processes behind nginx are not started");

/** The parts from outside say themselves when they are not there. Two processes take too long for every run. */
export const canRun: boolean = isDeep && hasNginx && hasRedis;

export const tokens = { ann: "token-of-ann-0123456789", bob: "token-of-bob-0123456789" };
export const bytes: Buffer = bytesOf(3 * 1024 * 1024, "cluster");
export const sha256: string = createHash("sha256").update(bytes).digest("hex");
/** As long as a name in a bucket may be, for headers that are as long as they can be. */
export const longName: string = `${"é".repeat(500)}.bin`;

/** Two processes of the server behind nginx, with a Redis, over a bucket of the stand-in with two files. */
export async function startSmallCluster(): Promise<Cluster & AsyncDisposable> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-cluster-test-"));
  const store = await startS3StandIn();
  store.put("a.bin", bytes);
  store.put(longName, bytes);
  const end = async (): Promise<void> => {
    await store[Symbol.asyncDispose]();
    await rm(folder, { recursive: true, force: true });
  };
  try {
    const cluster = await startCluster({
      folder,
      program: inject("programs")["apps/cluster/src/server.ts"]!,
      processes: 2,
      port: 0,
      storage: {
        S3_BUCKET: store.bucket,
        S3_ENDPOINT: store.endpoint,
        AWS_ACCESS_KEY_ID: store.credentials.accessKeyId,
        AWS_SECRET_ACCESS_KEY: store.credentials.secretAccessKey,
      },
      env: {
        ACCESS_TOKENS: `ann=${tokens.ann},bob=${tokens.bob}`,
        DRAIN_SECONDS: "1",
        // of the SDK of AWS, about versions of Node to come
        NODE_NO_WARNINGS: "1",
      },
    });
    return {
      ...cluster,
      async [Symbol.asyncDispose]() {
        await cluster[Symbol.asyncDispose]();
        await end();
      },
    };
  } catch (error) {
    await end();
    throw error;
  }
}
