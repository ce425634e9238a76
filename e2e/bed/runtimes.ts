import { spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { listen } from "./listen.ts";

const programOf = (path: string): string =>
  fileURLToPath(new URL(`../node_modules/${path}`, import.meta.url));

// their binaries are optional dependencies, of Linux on x64
const workerd = programOf("@cloudflare/workerd-linux-64/bin/workerd");
const bun = programOf("@oven/bun-linux-x64/bin/bun");
const deno = programOf("@deno/linux-x64-glibc/deno");

/** Whether there is a workerd to start. */
export const hasWorkerd: boolean = existsSync(workerd);

/** A server that runs. */
export interface Started extends AsyncDisposable {
  readonly origin: string;
}

/** A module as Workers get it, bundled from the packages' sources. */
export async function bundleWorker(path: string): Promise<string> {
  const built = await build({
    configFile: false,
    logLevel: "silent",
    resolve: { conditions: ["@sluice/source", "workerd", "worker", "module", "browser"] },
    build: {
      write: false,
      target: "es2022",
      minify: false,
      rolldownOptions: { output: { codeSplitting: false } },
      lib: { entry: fileURLToPath(new URL(path, import.meta.url)), formats: ["es"] },
    },
  });
  const [{ output }] = [built].flat() as unknown as [{ output: { code: string }[] }];
  if (output.length !== 1) throw new Error(`${path}: the bundle has ${output.length} files`);
  return output[0]!.code;
}

/** Settings of a server, which knows its origin by them. */
type Bindings = (origin: string) => Readonly<Record<string, string>>;

/**
 * Starts the open-source runtime of Cloudflare Workers with one module, without Node's own modules. `bindings` gives its
 * settings for the origin. Rejects with what workerd says when the module does not load.
 */
export async function startWorker(code: string, bindings: Bindings = () => ({})): Promise<Started> {
  const origin = await freeOrigin();
  const texts = Object.entries(bindings(origin)).map(
    ([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)})`,
  );
  const config = `using Workerd = import "/workerd/workerd.capnp";
     const config :Workerd.Config = (
       services = [(name = "main", worker = .worker)],
       sockets = [(name = "http", address = "${new URL(origin).host}", http = (), service = "main")]
     );
     const worker :Workerd.Worker = (
       modules = [(name = "server.mjs", esModule = embed "server.mjs")],
       bindings = [${texts.join(", ")}],
       compatibilityDate = "2026-01-01"
     );`;
  const files = { "server.mjs": code, "config.capnp": config };
  const args = ["serve", "--control-fd=3", "config.capnp"];
  // it says on this pipe that it listens
  return startProgram({ program: workerd, args, files, env: {}, origin, channel: 3 });
}

/** Starts Bun or Deno with one module, which writes a line when it listens. */
const startWith =
  (program: string, args: readonly string[]) =>
  async (code: string, bindings: Bindings = () => ({})): Promise<Started> => {
    const origin = await freeOrigin();
    const files = { "server.mjs": code };
    return startProgram({ program, args, files, env: bindings(origin), origin, channel: 1 });
  };

async function freeOrigin(): Promise<string> {
  const free = await listen(createServer());
  await free.close();
  return free.origin;
}

/** Starts a program in a folder with these files; it has started when something comes on the channel. */
async function startProgram(started: {
  readonly program: string;
  readonly args: readonly string[];
  readonly files: Readonly<Record<string, string>>;
  readonly env: Readonly<Record<string, string>>;
  readonly origin: string;
  readonly channel: 1 | 3;
}): Promise<Started> {
  const { program, args, files, env, origin, channel } = started;
  const folder = await mkdtemp(join(tmpdir(), "sluice-runtime-"));
  for (const [name, text] of Object.entries(files)) await writeFile(join(folder, name), text);
  const child = spawn(program, args, {
    cwd: folder,
    env: { ...env, HOME: folder, NO_COLOR: "1" },
    stdio: ["ignore", "pipe", "pipe", "pipe"],
  });
  let words = "";
  child.stdout!.resume();
  child.stderr!.setEncoding("utf8").on("data", (text: string) => void (words += text));
  const exited = once(child, "exit");
  const close = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true });
  };
  const outcome = await Promise.race([
    once(child.stdio[channel]!, "data").then(() => "listens"),
    exited.then(() => "ended"),
  ]);
  if (outcome === "ended") {
    await close();
    throw new Error(`${program}: ${words}`);
  }
  return { origin, [Symbol.asyncDispose]: close };
}

/** A runtime that a bundle can be started in. */
interface Runtime {
  readonly name: string;
  readonly isInstalled: boolean;
  readonly start: typeof startWorker;
}

export const runtimes: readonly Runtime[] = [
  { name: "workerd", isInstalled: hasWorkerd, start: startWorker },
  {
    name: "Bun",
    isInstalled: existsSync(bun),
    start: startWith(bun, ["run", "server.mjs"]),
  },
  {
    name: "Deno",
    isInstalled: existsSync(deno),
    start: startWith(deno, [
      "run",
      "--no-prompt",
      "--allow-net=127.0.0.1",
      "--allow-env",
      "server.mjs",
    ]),
  },
];

/** Runtimes besides Node that run a server of ours as a file. */
export const fileRuntimes = [
  { name: "Bun", program: bun, isInstalled: existsSync(bun), run: ["run"], serve: () => ["run"] },
  {
    name: "Deno",
    program: deno,
    isInstalled: existsSync(deno),
    run: ["run", "--no-prompt", "--allow-all"],
    serve: (port: number) => ["serve", "--no-prompt", "--host=127.0.0.1", `--port=${port}`],
  },
] as const;
