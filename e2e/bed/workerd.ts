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

const program = fileURLToPath(
  new URL("../node_modules/@cloudflare/workerd-linux-64/bin/workerd", import.meta.url),
);

/** Whether there is a workerd to start: its binary is an optional dependency of Linux on x64. */
export const hasWorkerd: boolean = existsSync(program);

/** A Worker that runs. */
export interface Worker extends AsyncDisposable {
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

/**
 * Starts the open-source runtime of Cloudflare Workers with one module, without Node's own modules. `bindings` gives its
 * settings for the origin. Rejects with what workerd says when the module does not load.
 */
export async function startWorker(
  code: string,
  bindings: (origin: string) => Readonly<Record<string, string>> = () => ({}),
): Promise<Worker> {
  const free = await listen(createServer());
  await free.close();
  const folder = await mkdtemp(join(tmpdir(), "sluice-workerd-"));
  await writeFile(join(folder, "worker.js"), code);
  const texts = Object.entries(bindings(free.origin)).map(
    ([name, text]) => `(name = ${JSON.stringify(name)}, text = ${JSON.stringify(text)})`,
  );
  await writeFile(
    join(folder, "config.capnp"),
    `using Workerd = import "/workerd/workerd.capnp";
     const config :Workerd.Config = (
       services = [(name = "main", worker = .worker)],
       sockets = [(name = "http", address = "127.0.0.1:${free.port}", http = (), service = "main")]
     );
     const worker :Workerd.Worker = (
       modules = [(name = "worker.js", esModule = embed "worker.js")],
       bindings = [${texts.join(", ")}],
       compatibilityDate = "2026-01-01"
     );`,
  );
  const child = spawn(program, ["serve", "--control-fd=3", "config.capnp"], {
    cwd: folder,
    stdio: ["ignore", "ignore", "pipe", "pipe"],
  });
  let said = "";
  child.stderr!.setEncoding("utf8").on("data", (text: string) => void (said += text));
  const exited = once(child, "exit");
  const close = async (): Promise<void> => {
    child.kill("SIGKILL");
    await exited;
    await rm(folder, { recursive: true });
  };
  // it says on this pipe that it listens
  const outcome = await Promise.race([
    once(child.stdio[3]!, "data").then(() => "listens"),
    exited.then(() => "ended"),
  ]);
  if (outcome === "ended") {
    await close();
    throw new Error(`workerd: ${said}`);
  }
  return { origin: free.origin, [Symbol.asyncDispose]: close };
}
