import { spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readFile, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { setTimeout as sleep } from "node:timers/promises";
import { createServer } from "node:http";
import { listen, type Listening } from "./listen.ts";

/**
 * Whether there is an nginx to start. Where SLUICE_REQUIRE_NGINX says that there must be, its lack is
 * an error; elsewhere it is said, and tests may be skipped.
 */
export const hasNginx: boolean =
  spawnSync("nginx", ["-v"], { stdio: "ignore" }).error === undefined;
if (!hasNginx && process.env["SLUICE_REQUIRE_NGINX"])
  throw new Error("SLUICE_REQUIRE_NGINX is set, but there is no nginx on the PATH");
if (!hasNginx)
  console.log(
    "no nginx: the configurations of the documentation are not tried (apt-get install nginx)",
  );

/** A running nginx. `close` takes it away in the middle of whatever it does. */
export type Nginx = Listening;

/** The first block of nginx in a page below docs/. */
export async function documentedSite(page: string): Promise<string> {
  const text = await readFile(new URL(`../../docs/${page}`, import.meta.url), "utf8");
  const block = /^```nginx\n([\s\S]*?)^```$/m.exec(text)?.[1];
  if (block === undefined) throw new Error(`no nginx block in docs/${page}`);
  return block;
}

/** A text with parts of it replaced, each of which must be there. */
export function adapted(site: string, parts: Readonly<Record<string, string>>): string {
  return Object.entries(parts).reduce((text, [part, other]) => {
    if (!text.includes(part)) throw new Error(`nginx: the configuration says no ${part}`);
    return text.replaceAll(part, other);
  }, site);
}

/**
 * Starts nginx, without root, with what `site` gives as the content of `http`: that of a port which
 * was free a moment ago. Should it be taken since, another one is tried.
 */
export async function startNginx(site: (port: number) => string): Promise<Nginx> {
  for (let tries = 1; ; tries += 1) {
    const free = await listen(createServer());
    await free.close();
    try {
      return await run(free.port, site(free.port));
    } catch (error) {
      if (tries === 5 || !String(error).includes("Address already in use")) throw error;
    }
  }
}

async function run(port: number, site: string): Promise<Nginx> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-nginx-"));
  await mkdir(join(folder, "tmp"));
  const temporary = ["client_body", "proxy", "fastcgi", "uwsgi", "scgi"]
    .map((name) => `${name}_temp_path ${folder}/tmp/${name};`)
    .join(" ");
  await writeFile(
    join(folder, "nginx.conf"),
    `daemon off; master_process off; pid ${folder}/nginx.pid; error_log stderr error;
     events { worker_connections 1024; }
     http { access_log off; ${temporary} ${site} }`,
  );
  const nginx = spawn("nginx", ["-p", folder, "-c", join(folder, "nginx.conf"), "-e", "stderr"], {
    stdio: ["ignore", "ignore", "pipe"],
  });
  let said = "";
  nginx.stderr.setEncoding("utf8").on("data", (text: string) => void (said += text));
  const closed = once(nginx, "close");
  let isClosed = false;
  void closed.then(() => (isClosed = true));
  const close = async (): Promise<void> => {
    nginx.kill("SIGKILL");
    await closed;
    await rm(folder, { recursive: true, force: true });
  };
  // it writes its id once it listens
  const deadline = performance.now() + 10_000;
  while (!(await isWritten(join(folder, "nginx.pid")))) {
    if (isClosed || performance.now() > deadline) {
      await close();
      throw new Error(`nginx did not start: ${said}`);
    }
    await sleep(5);
  }
  return { port, origin: `http://127.0.0.1:${port}`, close };
}

async function isWritten(path: string): Promise<boolean> {
  return (await readFile(path, "utf8").catch(() => "")) !== "";
}
