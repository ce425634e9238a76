import { AsyncLocalStorage } from "node:async_hooks";
import { execute } from "../src/commands/run.ts";
import { Stopped } from "../src/terminal/failure.ts";
import type { Run, Served } from "./sluice.ts";

export interface RunHereOptions {
  readonly env?: Readonly<Record<string, string>>;
  readonly cwd?: string;
}

/** What a command in this process wrote. */
interface Written {
  stdout: string;
  stderr: string;
  /** Called with each text on standard output. */
  onOutput?: () => void;
}

const commands = new AsyncLocalStorage<Written>();
/** The one that `runHere` waits for: what is written in no command's context is its own. */
let inFront: Written | undefined;
let taken = 0;
let giveBack: readonly (() => void)[] = [];

/**
 * Runs `sluice` to its end within this process, where a process of its own would show nothing more.
 * One at a time: folder and environment are lent to it.
 */
export async function runHere(
  args: readonly string[],
  { env = {}, cwd = process.cwd() }: RunHereOptions = {},
): Promise<Run> {
  const written: Written = { stdout: "", stderr: "" };
  const folder = process.cwd();
  const restoreEnvironment = lendEnvironment(env);
  process.chdir(cwd);
  inFront = written;
  try {
    return await start(args, written, new AbortController().signal);
  } finally {
    inFront = undefined;
    process.chdir(folder);
    restoreEnvironment();
  }
}

/**
 * Starts `sluice serve` within this process on a free port, as `serve` does in one of its own: for files whose
 * subject is not the process. The environment is lent to it until it listens.
 */
export function serveHere(
  folder: string,
  args: readonly string[] = [],
  { env = {} }: Pick<RunHereOptions, "env"> = {},
): Promise<Served> {
  // nothing is left in this user's state folder
  const trail = env["XDG_STATE_HOME"] === undefined ? ["--no-audit"] : [];
  return listenHere(["serve", folder, "--port", "0", ...trail, ...args], { env });
}

/** Starts a command that prints the URL at which it listens, within this process. */
export async function listenHere(
  args: readonly string[],
  { env = {} }: Pick<RunHereOptions, "env"> = {},
): Promise<Served> {
  const stop = new AbortController();
  const restoreEnvironment = lendEnvironment(env);
  try {
    const written: Written = { stdout: "", stderr: "" };
    const listens = new Promise<void>((resolve) => (written.onOutput = resolve));
    const run = start(args, written, stop.signal);
    await Promise.race([
      listens,
      run.then(({ stderr }) => Promise.reject(new Error(`it ended: ${stderr}`))),
    ]);
    return {
      url: written.stdout.trim(),
      end(signal = "SIGINT") {
        stop.abort(new Stopped(signal === "SIGINT" ? "interrupted" : "terminated"));
        return run;
      },
    };
  } finally {
    restoreEnvironment();
  }
}

async function start(args: readonly string[], written: Written, signal: AbortSignal): Promise<Run> {
  if (taken++ === 0)
    giveBack = [takeOver(process.stdout, "stdout"), takeOver(process.stderr, "stderr")];
  try {
    const status = await commands.run(written, () => execute(args, signal));
    return { status, stdout: written.stdout, stderr: written.stderr };
  } finally {
    if (--taken === 0) for (const end of giveBack) end();
  }
}

/** Keeps what commands write to a stream of this process, instead of writing it. */
function takeOver(stream: NodeJS.WriteStream, name: "stdout" | "stderr"): () => void {
  const own = Object.getOwnPropertyDescriptor(stream, "write");
  const write = stream.write.bind(stream);
  stream.write = (chunk: string | Uint8Array, ...rest: any[]) => {
    const to = commands.getStore() ?? inFront;
    if (!to) return write(chunk, ...rest);
    to[name] += typeof chunk === "string" ? chunk : Buffer.from(chunk).toString();
    if (name === "stdout") to.onOutput?.();
    return true;
  };
  return () => {
    if (own) Object.defineProperty(stream, "write", own);
    else Reflect.deleteProperty(stream, "write");
  };
}

/** Changes the environment, without a token unless `env` has one; gives what undoes that. */
function lendEnvironment(env: Readonly<Record<string, string>>): () => void {
  const lent = { SLUICE_TOKEN: undefined, SLUICE_SERVER_TOKEN: undefined, ...env };
  const before = Object.keys(lent).map((name) => [name, process.env[name]] as const);
  setEnvironment(Object.entries(lent));
  return () => setEnvironment(before);
}

function setEnvironment(values: readonly (readonly [string, string | undefined])[]): void {
  for (const [name, value] of values)
    if (value === undefined) delete process.env[name];
    else process.env[name] = value;
}
