import { spawn, type ChildProcess } from "node:child_process";
import { once } from "node:events";
import { createServer, type AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { inject } from "vitest";

/** How to start the real program. */
export const program: readonly string[] = [
  process.execPath,
  inject("programs")["packages/cli/src/main.ts"]!,
];

/** How a run ended. */
export interface Run {
  readonly status: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface RunOptions {
  readonly env?: Record<string, string>;
  readonly cwd?: string;
  /** Called once it runs. */
  readonly onStart?: (child: ChildProcess) => void;
}

/** Runs `sluice` to its end, with pipes instead of a terminal. */
export function sluice(args: readonly string[], options: RunOptions = {}): Promise<Run> {
  return runCommand([...program, ...args], options);
}

/** Runs any command to its end. */
export async function runCommand(
  [command = "", ...args]: readonly string[],
  { env, cwd, onStart }: RunOptions = {},
): Promise<Run> {
  const child = spawn(command, args, { env: { ...plainEnv(), ...env }, cwd });
  onStart?.(child);
  const [[status], stdout, stderr] = await Promise.all([
    once(child, "close") as Promise<[number | null]>,
    text(child.stdout),
    text(child.stderr),
  ]);
  return { status, stdout, stderr };
}

/** A running command that listens, such as `sluice serve`. */
export interface Served {
  readonly url: string;
  /** Sends a signal and waits for the end. */
  end(signal?: NodeJS.Signals): Promise<Run>;
}

/** Starts `sluice serve` on a free port, without a trail unless one is named, or a folder for state. */
export function serve(
  folder: string,
  args: readonly string[] = [],
  options: RunOptions = {},
): Promise<Served> {
  // nothing is left in this user's state folder
  const trail = options.env?.["XDG_STATE_HOME"] === undefined ? ["--no-audit"] : [];
  return startListening(["serve", folder, "--port", "0", ...trail, ...args], options);
}

/** Starts a command that prints the URL at which it listens. */
export async function startListening(
  args: readonly string[],
  options: RunOptions = {},
): Promise<Served> {
  let child: ChildProcess | undefined;
  const run = sluice(args, { ...options, onStart: (started) => (child = started) });
  const [line] = (await Promise.race([
    once(child!.stdout!, "data"),
    run.then(({ stderr }) => Promise.reject(new Error(`it ended: ${stderr}`))),
  ])) as [Buffer];
  return {
    url: line.toString().trim(),
    end(signal = "SIGINT") {
      child!.kill(signal);
      return run;
    },
  };
}

/** A port that nothing listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  server.close();
  await once(server, "close");
  return port;
}

/** This environment without what would change the output. */
function plainEnv(): NodeJS.ProcessEnv {
  const proxies = ["HTTPS_PROXY", "HTTP_PROXY", "NO_PROXY"];
  const loud = new Set([
    ...proxies,
    ...proxies.map((name) => name.toLowerCase()),
    "SLUICE_TOKEN",
    "SLUICE_SERVER_TOKEN",
    "FORCE_COLOR",
    "NO_COLOR",
    "NODE_OPTIONS",
  ]);
  return Object.fromEntries(Object.entries(process.env).filter(([name]) => !loud.has(name)));
}
