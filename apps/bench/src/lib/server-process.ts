import { createServer, connect, type AddressInfo } from "node:net";
import { once } from "node:events";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import { startChild, type Child } from "./child.ts";
import {
  childrenOf,
  cpuSeconds,
  movedBytes,
  peakRssBytes,
  resetPeakRss,
  rssBytes,
} from "./proc.ts";

/** A server under test, in its own process. */
export interface ServerProcess extends AsyncDisposable {
  /** The facts that the program printed when it was ready; a port at least. */
  readonly ready: { readonly port: number; readonly [fact: string]: unknown };
  /** Processor seconds used so far, workers included. */
  cpuSeconds(): number;
  /** Bytes resident now, workers included. */
  rssBytes(): number;
  /** Most bytes resident since the last `resetPeak`. */
  peakBytes(): number;
  resetPeak(): void;
  /** Bytes that were read and written so far, of files and of sockets. */
  movedBytes(): number;
}

function asServer(child: Child, ready: ServerProcess["ready"]): ServerProcess {
  const pids = [child.pid, ...childrenOf(child.pid)];
  const sum = (read: (pid: number) => number): number =>
    pids.reduce((total, pid) => total + read(pid), 0);
  return {
    ready,
    cpuSeconds: () => sum(cpuSeconds),
    rssBytes: () => sum(rssBytes),
    peakBytes: () => sum(peakRssBytes),
    resetPeak: () => pids.forEach(resetPeakRss),
    movedBytes: () => sum(movedBytes),
    [Symbol.asyncDispose]: () => child.stop(),
  };
}

/** Starts a Node program of this app (`dist/<name>.js`) that prints one line of JSON when it is ready. */
export function startNodeServer(
  name: string,
  args: readonly string[],
  options: { readonly signal: AbortSignal },
): Promise<ServerProcess> {
  return startServer(name, [builtProgram(name), ...args], options);
}

/** The same for a program that is not built (`src/<name>.ts`), with the loader that runs the bench itself. */
export function startSourceServer(
  name: string,
  args: readonly string[],
  options: { readonly signal: AbortSignal },
): Promise<ServerProcess> {
  const source = new URL(`../${name}.ts`, import.meta.url).pathname;
  return startServer(name, [...process.execArgv, source, ...args], options);
}

async function startServer(
  name: string,
  args: readonly string[],
  options: { readonly signal: AbortSignal },
): Promise<ServerProcess> {
  const child = startChild(process.execPath, args, options);
  const [line] = (await Promise.race([
    once(createInterface(child.process.stdout!), "line"),
    child.ended,
    tooLate(`${name}: was not ready in time`),
  ])) as [string];
  return asServer(child, JSON.parse(line) as ServerProcess["ready"]);
}

/** Starts an outside server that was told to listen on `port`, and waits until it does. */
export async function startOutsideServer(
  command: string,
  args: readonly string[],
  options: { readonly port: number; readonly signal: AbortSignal },
): Promise<ServerProcess> {
  const child = startChild(command, args, options);
  await Promise.race([untilListening(options.port), child.ended]);
  return asServer(child, { port: options.port });
}

/** Path of a program of this app as it was built. */
export function builtProgram(name: string): string {
  return new URL(`../../dist/${name}.js`, import.meta.url).pathname;
}

/** A loopback port that is free at the moment. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

async function untilListening(port: number): Promise<void> {
  for (let tries = 0; tries < 100; tries++) {
    const socket = connect(port, "127.0.0.1");
    try {
      await once(socket, "connect");
      return;
    } catch {
      await sleep(50);
    } finally {
      socket.destroy();
    }
  }
  throw new Error(`nothing listens on port ${port} after five seconds`);
}

async function tooLate(message: string): Promise<never> {
  await sleep(15_000, undefined, { ref: false });
  throw new Error(message);
}
