/** The processes of the bench: programs that run to their end, servers under test, clients that are watched. */
import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { connect } from "node:net";
import { createInterface } from "node:readline";
import { setTimeout as sleep } from "node:timers/promises";
import type { Bench } from "./bench.ts";
import {
  childrenOf,
  cpuSeconds,
  type MemoryTrace,
  movedBytes,
  peakRssBytes,
  resetPeakRss,
  rssBytes,
  watchMemory,
} from "./proc.ts";
import type { Work } from "./program.ts";

/** Every child that runs now, so that none outlives the bench. */
const children = new Set<ChildProcess>();
process.on("exit", () => {
  for (const child of children) killGroup(child);
});

/** A child leads a group of its own: what it started, as nginx its worker, ends with it. */
function killGroup({ pid }: ChildProcess): void {
  try {
    if (pid !== undefined) process.kill(-pid, "SIGKILL");
  } catch {
    // no process is left in it
  }
}

/** Options of {@link startChild}. */
interface ChildOptions {
  readonly cwd?: string;
  /** Kills the child. */
  readonly signal: AbortSignal;
}

/** A child process that is killed when the bench ends, however it ends. */
interface Child {
  readonly pid: number;
  readonly process: ChildProcess;
  /** What it wrote to its error output so far; the last 4,000 characters. */
  errorOutput(): string;
  /** Rejects when the child ends before `stop`. */
  readonly ended: Promise<never>;
  stop(): Promise<void>;
}

/** Starts `command` with its input closed and its output to be read by the caller. */
function startChild(command: string, args: readonly string[], options: ChildOptions): Child {
  options.signal.throwIfAborted();
  const child = spawn(command, args, {
    cwd: options.cwd,
    detached: true,
    stdio: ["ignore", "pipe", "pipe"],
  });
  children.add(child);
  const kill = (): void => killGroup(child);
  options.signal.addEventListener("abort", kill, { once: true });
  let errorOutput = "";
  child.stderr.setEncoding("utf8").on("data", (text: string) => {
    errorOutput = (errorOutput + text).slice(-4000);
  });
  const exit = new Promise<string>((resolve) => {
    child.once("error", (error) => resolve(error.message));
    child.once("close", (code, signal) => resolve(`ended with ${code ?? signal}`));
  });
  const ended = exit.then((how): never => {
    children.delete(child);
    options.signal.removeEventListener("abort", kill);
    options.signal.throwIfAborted();
    throw new Error(`${command}: ${how}: ${errorOutput.trim()}`);
  });
  ended.catch(() => {}); // a caller that waits for the child sees it; after `stop` none does
  return {
    pid: child.pid ?? 0,
    process: child,
    errorOutput: () => errorOutput,
    ended,
    async stop() {
      child.kill("SIGTERM");
      const hard = setTimeout(kill, 2000);
      await exit;
      clearTimeout(hard);
    },
  };
}

/** What a program that ran to its end printed, and how long it took. */
interface Finished {
  readonly stdout: string;
  readonly seconds: number;
}

/** Runs a program to its end. Rejects with its error output when it fails or takes longer than `timeoutMs`. */
export async function runToEnd(
  command: string,
  args: readonly string[],
  options: ChildOptions & { readonly timeoutMs?: number },
): Promise<Finished> {
  const timeout = AbortSignal.timeout(options.timeoutMs ?? 120_000);
  const signal = AbortSignal.any([options.signal, timeout]);
  const startedAt = performance.now();
  const child = startChild(command, args, { ...options, signal });
  let stdout = "";
  child.process.stdout!.setEncoding("utf8").on("data", (text: string) => {
    stdout += text;
  });
  const [code] = (await Promise.race([once(child.process, "close"), failedToStart(child)])) as [
    number | null,
  ];
  const seconds = (performance.now() - startedAt) / 1000;
  signal.throwIfAborted();
  if (code !== 0) throw new Error(`${command}: ended with ${code}: ${child.errorOutput().trim()}`);
  return { stdout, seconds };
}

async function failedToStart(child: Child): Promise<never> {
  const [error] = (await once(child.process, "error")) as [Error];
  throw error;
}

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
  const source = new URL(`../programs/${name}.ts`, import.meta.url).pathname;
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
  return new URL(`../../dist/programs/${name}.js`, import.meta.url).pathname;
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

/** A client's work, and the memory of both ends from idle to its end. */
export interface Observed extends Work {
  readonly client: MemoryTrace;
  readonly server: MemoryTrace;
  readonly serverCpuSeconds: number;
}

/** Runs a client program of this app (`dist/<name>.js`) against `server` and watches both. */
export async function observeClient(
  bench: Bench,
  name: string,
  args: readonly string[],
  server: ServerProcess,
): Promise<Observed> {
  const signal = AbortSignal.any([bench.signal, AbortSignal.timeout(180_000)]);
  const child = startChild(process.execPath, [builtProgram(name), ...args], { signal });
  try {
    const lines = createInterface(child.process.stdout!);
    const [idle] = (await Promise.race([once(lines, "line"), child.ended])) as [string];
    if (idle !== `{"idle":true}`) throw new Error(`bench: ${name} said ${idle}`);
    const serverCpuBefore = server.cpuSeconds();
    const stopServer = watchMemory(server);
    const stopClient = watchMemory({ rssBytes: () => rssBytes(child.pid) });
    try {
      const [line] = (await Promise.race([once(lines, "line"), child.ended])) as [string];
      return {
        ...(JSON.parse(line) as Work),
        client: stopClient(),
        server: stopServer(),
        serverCpuSeconds: server.cpuSeconds() - serverCpuBefore,
      };
    } finally {
      stopClient();
      stopServer();
    }
  } finally {
    await child.stop();
  }
}
