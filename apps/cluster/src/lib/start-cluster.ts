import { mkdir, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { formatKey, generateKey } from "@sluice/core";
import { startChild, type Child } from "./child.ts";
import { freePort, startNginx } from "./nginx.ts";

/** What a cluster is made of. */
export interface ClusterOptions {
  /** An empty folder, for keys, audit trails and sockets. */
  readonly folder: string;
  /** Path of the server program. */
  readonly program: string;
  /** How many processes. */
  readonly processes: number;
  /** Port of nginx. 0 takes a free one. */
  readonly port: number;
  /** Variables that name the bucket, its store and the credentials for it. */
  readonly storage: Readonly<Record<string, string>>;
  /** Further variables of the processes. */
  readonly env?: Readonly<Record<string, string>>;
}

/** One of the processes behind nginx. */
interface ClusterProcess {
  readonly name: string;
  readonly port: number;
  /** File of its audit trail. */
  readonly trail: string;
  /** Sends SIGTERM and waits for its end. */
  stop(): Promise<void>;
  /** The same, and starts it again. */
  restart(): Promise<void>;
}

/** nginx, Redis and the processes, running. */
export interface Cluster extends AsyncDisposable {
  readonly endpoint: string;
  /** A bearer token that they know. */
  readonly token: string;
  readonly keysFile: string;
  /** Socket of the Redis. */
  readonly redis: string;
  readonly processes: readonly ClusterProcess[];
}

/** Starts them all. Rejects with one sentence when one is not there; nothing is left running then. */
export async function startCluster(options: ClusterOptions): Promise<Cluster> {
  const { folder, program, storage } = options;
  const running: { stop(): Promise<void> }[] = [];
  const stopAll = async (): Promise<void> => {
    for (const child of running.toReversed()) await child.stop();
  };
  try {
    const redis = join(folder, "redis.sock");
    running.push(await startRedis(folder, redis));

    const keysFile = join(folder, "keys");
    await writeFile(keysFile, `${formatKey(generateKey())}\n`, { mode: 0o600 });

    const port = options.port === 0 ? await freePort() : options.port;
    const endpoint = `http://127.0.0.1:${port}/mcp`;
    const token = crypto.randomUUID();
    const env = {
      ...process.env,
      ...storage,
      PUBLIC_URL: endpoint,
      ACCESS_TOKENS: `ann=${token}`,
      KEYS_FILE: keysFile,
      REDIS_URL: redis,
      REDIS_DURABLE: "true",
      ...options.env,
    };
    const started = await Promise.allSettled(
      Array.from({ length: options.processes }, async (_, n) => {
        const name = String.fromCodePoint(97 + n);
        const trail = join(folder, `audit-${name}.log`);
        const each = await startProcess(program, { ...env, NAME: name, AUDIT_FILE: trail });
        running.push(each);
        return {
          name,
          trail,
          port: each.port,
          stop: () => each.stop(),
          restart: () => each.restart(),
        };
      }),
    );
    const processes = started.map((each) => {
      if (each.status === "rejected") throw each.reason;
      return each.value;
    });

    const nginx = join(folder, "nginx");
    await mkdir(nginx);
    running.push(await startNginx(nginx, { port, processes: processes.map((each) => each.port) }));
    return { endpoint, token, keysFile, redis, processes, [Symbol.asyncDispose]: stopAll };
  } catch (error) {
    await stopAll();
    throw error;
  }
}

function startRedis(folder: string, socket: string): Promise<Child> {
  const durable = ["--appendonly", "yes", "--appendfsync", "always"];
  return startChild("redis-server", {
    args: ["--port", "0", "--unixsocket", socket, "--dir", folder, "--save", "", ...durable],
    ready: /ready to accept connections/i,
  });
}

/** For a process that drains. */
const patienceMs = 60_000;

async function startProcess(program: string, env: NodeJS.ProcessEnv) {
  const start = (port: number): Promise<Child> =>
    startChild(process.execPath, {
      // the parent's own flags are passed on, so the child runs TypeScript too
      args: [...process.execArgv, program],
      env: { ...env, PORT: String(port) },
      ready: /on port (\d+)$/,
    });
  let child = await start(0);
  const port = Number(child.ready[1]);
  return {
    port,
    stop: () => child.stop(patienceMs),
    async restart() {
      await child.stop(patienceMs);
      child = await start(port);
    },
  };
}
