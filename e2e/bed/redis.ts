import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

/**
 * Whether there is a Redis to start. Where SLUICE_REQUIRE_REDIS says that there must be, its lack is
 * an error; elsewhere it is said, and tests may be skipped.
 */
export const hasRedis: boolean =
  spawnSync("redis-server", ["--version"], { stdio: "ignore" }).error === undefined;
if (!hasRedis && process.env["SLUICE_REQUIRE_REDIS"])
  throw new Error("SLUICE_REQUIRE_REDIS is set, but there is no redis-server on the PATH");
if (!hasRedis)
  console.log("no redis-server: what is kept in Redis is not tried (apt-get install redis-server)");

/** A Redis of one's own, that keeps nothing when it ends. */
export interface RedisServer extends AsyncDisposable {
  /** Its Unix socket, which is all it listens on. */
  readonly path: string;
  /** Stops it as it is, and lets it go on: connections stay open, nothing is answered meanwhile. */
  freeze(): void;
  thaw(): void;
}

/** Starts `redis-server`. Rejects when it is not ready within 10 s. */
export async function startRedis(): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-redis-"));
  const path = join(folder, "redis.sock");
  const settings = ["--port", "0", "--unixsocket", path, "--dir", folder, "--save", ""];
  const child = spawn("redis-server", [...settings, "--loglevel", "notice"], {
    stdio: ["ignore", "pipe", "inherit"],
  });
  const exited = once(child, "exit");
  const end = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true, force: true });
  };
  try {
    await becomesReady(child.stdout, AbortSignal.timeout(10_000));
  } catch (error) {
    await end();
    throw error;
  }
  return {
    path,
    freeze: () => void child.kill("SIGSTOP"),
    thaw: () => void child.kill("SIGCONT"),
    [Symbol.asyncDispose]: end,
  };
}

async function becomesReady(output: NodeJS.ReadableStream, signal: AbortSignal): Promise<void> {
  const lines = createInterface({ input: output, signal });
  const seen: string[] = [];
  for await (const line of lines) {
    seen.push(line);
    if (!/ready to accept connections/i.test(line)) continue;
    output.resume();
    return;
  }
  throw new Error(`redis-server did not become ready: ${seen.slice(-3).join(" | ")}`);
}
