import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";

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
export interface ChildOptions {
  readonly cwd?: string;
  /** Kills the child. */
  readonly signal: AbortSignal;
}

/** A child process that is killed when the bench ends, however it ends. */
export interface Child {
  readonly pid: number;
  readonly process: ChildProcess;
  /** What it wrote to its error output so far; the last 4,000 characters. */
  errorOutput(): string;
  /** Rejects when the child ends before `stop`. */
  readonly ended: Promise<never>;
  stop(): Promise<void>;
}

/** Starts `command` with its input closed and its output to be read by the caller. */
export function startChild(command: string, args: readonly string[], options: ChildOptions): Child {
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
export interface Finished {
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
