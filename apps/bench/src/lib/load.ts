/** What loads a server: curl, wrk, and readers that take nothing. */
import { once } from "node:events";
import { connect, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { runToEnd } from "./processes.ts";

interface ClientOptions {
  readonly signal: AbortSignal;
  readonly timeoutMs?: number;
}

/** Whether a program is installed here. */
export async function isInstalled(command: string): Promise<boolean> {
  const flag = command === "nginx" || command === "openssl" ? "-v" : "--version";
  const args = command === "openssl" ? ["version"] : [flag];
  try {
    await runToEnd(command, args, { signal: AbortSignal.timeout(5000) });
    return true;
  } catch (error) {
    // wrk knows no flag that ends with success
    return (error as NodeJS.ErrnoException).code !== "ENOENT";
  }
}

/**
 * Downloads with curl, to nowhere unless `to` is given, and gives the seconds it took. `url` may
 * hold a curl glob; then `parallel` transfers run at once. Any answer but `bytes` bytes of success
 * is an error.
 */
export async function curl(
  url: string,
  bytes: number,
  options: ClientOptions & {
    readonly parallel?: number;
    readonly to?: string;
    readonly args?: readonly string[];
  },
): Promise<number> {
  const parallel = options.parallel
    ? ["--parallel", "--parallel-immediate", "--parallel-max", String(options.parallel)]
    : [];
  const { stdout, seconds } = await runToEnd(
    "curl",
    [
      "--silent",
      "--show-error",
      "--fail",
      "--insecure",
      "--noproxy",
      "*",
      "--output",
      options.to ?? "/dev/null",
      "--write-out",
      "%{size_download}\n",
      ...parallel,
      ...(options.args ?? []),
      url,
    ],
    options,
  );
  const got = stdout
    .trim()
    .split("\n")
    .reduce((sum, line) => sum + Number(line), 0);
  if (got !== bytes) throw new Error(`curl: got ${got} of ${bytes} bytes`);
  return seconds;
}

/** Requests a second that wrk gets over `connections` kept-alive connections. `script` says what it sends. */
export async function wrk(
  url: string,
  options: ClientOptions & {
    readonly connections: number;
    readonly seconds: number;
    readonly script?: string;
  },
): Promise<number> {
  const script = options.script === undefined ? [] : ["-s", options.script];
  const { stdout } = await runToEnd(
    "wrk",
    ["-t1", `-c${options.connections}`, `-d${options.seconds}s`, ...script, url],
    options,
  );
  if (/Non-2xx|Socket errors/.test(stdout)) throw new Error(`wrk: ${stdout.trim()}`);
  const rate = /Requests\/sec:\s+([\d.]+)/.exec(stdout)?.[1];
  if (rate === undefined) throw new Error(`wrk: no rate in ${stdout.trim()}`);
  return Number(rate);
}

/** Readers that ask for a file and then take nothing. */
export interface StalledReaders extends AsyncDisposable {
  /** Adds `count`; resolves once every buffer on the way is full. */
  open(count: number): Promise<void>;
}

/** None yet. */
export function createStalledReaders(url: string, signal: AbortSignal): StalledReaders {
  const { host, port, pathname } = new URL(url);
  const sockets: Socket[] = [];
  return {
    async open(count) {
      for (let n = 0; n < count; n += 1) {
        const socket = connect(Number(port), "127.0.0.1").pause();
        sockets.push(socket);
        await once(socket, "connect", { signal });
        socket.on("error", () => {}); // the server may give up on it; its memory is what counts
        socket.write(`GET ${pathname} HTTP/1.1\r\nHost: ${host}\r\n\r\n`);
      }
      await sleep(1500, undefined, { signal });
    },
    async [Symbol.asyncDispose]() {
      for (const socket of sockets) socket.destroy();
    },
  };
}
