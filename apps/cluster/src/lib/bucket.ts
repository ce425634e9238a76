import { mkdir } from "node:fs/promises";
import { homedir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { CreateBucketCommand, S3Client } from "@aws-sdk/client-s3";
import type { StorageBackend } from "@sluice/storage";
import { createS3Backend } from "@sluice/storage-s3";
import { startChild } from "./child.ts";
import { freePort } from "./nginx.ts";

/** A store that speaks the protocol of S3, and a folder in a bucket of it. */
export interface Bucket extends AsyncDisposable {
  /** What it is, for people. */
  readonly name: string;
  /** Variables that name it, for the processes. */
  readonly variables: Readonly<Record<string, string>>;
  /** To put files there. */
  readonly backend: StorageBackend;
  /** It goes with its store, and what is in it as well. */
  readonly isTemporary: boolean;
}

const prefix = "sluice-cluster";

/**
 * The bucket that the environment names, or a new one in an OpenStack Swift of one's own, which
 * tools/swift-s3.sh unpacks from Debian packages. Rejects with what to do where neither can be.
 */
export async function openBucket(env: NodeJS.ProcessEnv): Promise<Bucket> {
  const { S3_ENDPOINT: endpoint, S3_BUCKET: bucket } = env;
  if (bucket === undefined) return startSwift(env);
  const given = { bucket, prefix, ...(endpoint !== undefined && { endpoint }) };
  const backend = createS3Backend({ ...given, writable: true });
  return {
    name: `bucket ${bucket}${endpoint === undefined ? "" : ` at ${endpoint}`}`,
    variables: { S3_PREFIX: prefix },
    backend,
    isTemporary: false,
    [Symbol.asyncDispose]: async () => backend.close?.(),
  };
}

async function startSwift(env: NodeJS.ProcessEnv): Promise<Bucket> {
  const folder = join(env["XDG_CACHE_HOME"] ?? join(homedir(), ".cache"), "sluice", "swift");
  await mkdir(folder, { recursive: true });
  const script = fileURLToPath(new URL("../../../../tools/swift-s3.sh", import.meta.url));
  const swift = await startChild("bash", {
    args: [script, folder, String(await freePort())],
    ready: /^S3 on (\S+)$/,
    // the first time 66 MB are downloaded
    timeoutMs: 300_000,
  }).catch((cause: Error) => {
    const advice =
      "name one with S3_BUCKET, S3_ENDPOINT, AWS_ACCESS_KEY_ID and AWS_SECRET_ACCESS_KEY";
    const what = `OpenStack Swift did not start, and no bucket is named: ${advice}`;
    throw new Error(`${what}\n${cause.message}`, { cause });
  });
  const [bucket, endpoint, region] = ["cluster", swift.ready[1]!, "us-east-1"];
  const credentials = { accessKeyId: "test:tester", secretAccessKey: "testing" };
  const client = new S3Client({ endpoint, region, credentials, forcePathStyle: true });
  try {
    await client.send(new CreateBucketCommand({ Bucket: bucket }));
  } catch (error) {
    await swift.stop();
    throw error;
  } finally {
    client.destroy();
  }
  const backend = createS3Backend({ bucket, prefix, endpoint, credentials, writable: true });
  return {
    name: "OpenStack Swift, which speaks the protocol of S3",
    variables: {
      S3_BUCKET: bucket,
      S3_PREFIX: prefix,
      S3_ENDPOINT: endpoint,
      AWS_ACCESS_KEY_ID: credentials.accessKeyId,
      AWS_SECRET_ACCESS_KEY: credentials.secretAccessKey,
    },
    backend,
    isTemporary: true,
    async [Symbol.asyncDispose]() {
      await backend.close?.();
      await swift.stop();
    },
  };
}
