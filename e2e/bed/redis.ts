import { spawn, spawnSync, type ChildProcess } from "node:child_process";
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

/** A Redis of one's own. */
export interface RedisServer extends AsyncDisposable {
  /** Its Unix socket, which is all it listens on. */
  readonly path: string;
  /** Ends it by SIGKILL. */
  stop(): Promise<void>;
  /** Starts it again after {@link stop}. */
  start(): Promise<void>;
  /** Stops it as it is, and lets it go on: connections stay open, nothing is answered meanwhile. */
  freeze(): void;
  thaw(): void;
}

/**
 * Starts `redis-server`. When it ends it keeps nothing, or with `durable` whatever it answered; `settings`
 * come after those. Rejects when it is not ready within 10 s.
 */
export async function startRedis({
  durable = false,
  settings: further = [],
}: {
  readonly durable?: boolean;
  readonly settings?: readonly string[];
} = {}): Promise<RedisServer> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-redis-"));
  const path = join(folder, "redis.sock");
  const settings = ["--port", "0", "--unixsocket", path, "--dir", folder, "--save", ""];
  if (durable) settings.push("--appendonly", "yes", "--appendfsync", "always");
  settings.push(...further);
  let child: ChildProcess | undefined;

  async function start(): Promise<void> {
    const started = spawn("redis-server", [...settings, "--loglevel", "notice"], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    child = started;
    await becomesReady(started.stdout, AbortSignal.timeout(10_000));
  }

  async function stop(): Promise<void> {
    if (!child) return;
    const exited = once(child, "exit");
    child.kill("SIGKILL");
    child = undefined;
    await exited;
  }

  async function end(): Promise<void> {
    await stop();
    await rm(folder, { recursive: true, force: true });
  }

  try {
    await start();
  } catch (error) {
    await end();
    throw error;
  }
  return {
    path,
    start,
    stop,
    freeze: () => void child?.kill("SIGSTOP"),
    thaw: () => void child?.kill("SIGCONT"),
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
