// Three server processes behind nginx, with Redis and a bucket, on one machine:   npm run cluster [-- --keep]
import { createHash, randomFillSync } from "node:crypto";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { dirname, extname, join } from "node:path";
import { parseArgs } from "node:util";
import type { StorageBackend } from "@sluice/storage";
import { openBucket } from "./lib/bucket.ts";
import { ensurePrograms } from "./lib/programs.ts";
import { startCluster } from "./lib/start-cluster.ts";
import { tellStory } from "./lib/story.ts";

const fileBytes = 64 * 1024 ** 2;
const key = "big.bin";

const { values: options } = parseArgs({ options: { keep: { type: "boolean", default: false } } });
const interrupted = new AbortController();
for (const signal of ["SIGINT", "SIGTERM"])
  process.once(signal, () => interrupted.abort(new Error("interrupted")));
const folder = await mkdtemp(join(tmpdir(), "sluice-cluster-"));
try {
  await run();
} catch (error) {
  // a terminal interrupts everything that was started, too: what fails then is no news
  const said = interrupted.signal.aborted ? interrupted.signal.reason : error;
  console.error(`cluster: ${said instanceof Error ? said.message : String(said)}`);
  process.exitCode = 1;
} finally {
  await rm(folder, { recursive: true, force: true });
}

async function run(): Promise<void> {
  ensurePrograms();
  await using bucket = await openBucket(process.env);
  const sha256 = await putFile(bucket.backend);
  try {
    const main = process.argv[1]!;
    await using cluster = await startCluster({
      folder,
      program: join(dirname(main), `server${extname(main)}`),
      processes: 3,
      port: Number(process.env["PORT"] ?? 8000),
      storage: bucket.variables,
      env: { DRAIN_SECONDS: "1" },
    });
    const { endpoint, token } = cluster;
    console.log(`Three processes behind nginx at ${endpoint}; Redis; ${bucket.name}`);
    const file = { uri: `files://cluster/${key}`, size: fileBytes, sha256 };
    interrupted.signal.throwIfAborted();
    const interruption = once(interrupted.signal, "abort");
    const story = tellStory({ cluster, file, say: (line) => console.log(`  ${line}`) });
    await Promise.race([story, interruption]);
    interrupted.signal.throwIfAborted();
    if (!options.keep) return console.log("--keep leaves it running for a client of your own.");
    console.log(
      `Yours: npx @sluice/cli get ${endpoint} ${file.uri} --token ${token}\nCtrl-C ends it.`,
    );
    await interruption;
  } finally {
    if (!bucket.isTemporary) await bucket.backend.remove?.(key);
  }
}

async function putFile(backend: StorageBackend): Promise<string> {
  const hash = createHash("sha256");
  await using writer = await backend.write!(key, { size: fileBytes });
  const chunk = Buffer.alloc(1024 ** 2);
  for (let bytes = 0; bytes < fileBytes; bytes += chunk.length) {
    hash.update(randomFillSync(chunk));
    // the writer may still have the one before
    await writer.write(Buffer.from(chunk));
  }
  await writer.commit();
  return hash.digest("hex");
}
