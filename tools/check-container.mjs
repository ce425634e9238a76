// Runs the steps of container/Dockerfile without a container engine, in a scratch folder that stands for the root of each
// stage: the build, the installation, the program as CMD starts it, and its health check. Part of `npm run check`.
import { spawnSync } from "node:child_process";
import { cpSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";
import { isMain } from "./is-main.mjs";
import { plainSettings, run, start, stopAll, untilListening } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));

/** The instructions of a container file, in the form that ours has: one a line, without continued lines. */
export function instructionsOf(text) {
  const lines = text.split("\n").filter((line) => line !== "" && !line.startsWith("#"));
  return lines.map((line) => {
    const [, name, rest] = /^([A-Z]+) (.+)$/.exec(line) ?? [];
    if (name === undefined || line.endsWith("\\")) throw new Error(`not understood: ${line}`);
    return { name, rest };
  });
}

/** Folders of an image that its steps name. */
const imageFolders = /(?<![\w.])\/(?:src|packs|app|data|state)\b/g;

/** The words of an instruction in its JSON form. */
const wordsOf = (rest) => JSON.parse(rest.slice(rest.indexOf("[")));

/** Gives the files that a build sees: those that are in the repository, as the engine's ignore file has it. */
function copySources(to) {
  const { stdout } = spawnSync("git", ["ls-files", "-z"], { cwd: root, encoding: "utf8" });
  for (const file of stdout.split("\0").filter((name) => name !== ""))
    cpSync(join(root, file), join(to, file), { force: true });
}

async function build(instructions, base, env) {
  const inScratch = (text) => text.replaceAll(imageFolders, (folder) => join(base, folder));
  let folder = base;
  const image = { env: {} };
  for (const { name, rest } of instructions) {
    if (name === "WORKDIR") {
      folder = inScratch(rest);
      mkdirSync(folder, { recursive: true });
    } else if (name === "COPY" && rest === ". .") copySources(folder);
    // the stages share the folders here
    else if (name === "COPY" && !rest.startsWith("--from=build ")) throw new Error(`COPY ${rest}`);
    else if (name === "RUN")
      await run(inScratch(rest).replace(/--owner=\w+/, ""), folder, { ...env, ...image.env });
    else if (name === "ENV") image.env[rest.split("=")[0]] = inScratch(rest.split("=")[1]);
    else if (["HEALTHCHECK", "ENTRYPOINT", "CMD"].includes(name))
      image[name] = wordsOf(inScratch(rest));
  }
  return image;
}

async function tryImage(base) {
  const home = join(base, "home");
  mkdirSync(home);
  const env = { ...plainSettings(), HOME: home };
  const file = readFileSync(join(root, "container/Dockerfile"), "utf8");
  const image = await build(instructionsOf(file), base, env);
  writeFileSync(join(base, "data", "hello.txt"), "hello");
  const port = await freePort();
  const own = { ...env, ...image.env };
  const words = [...image.ENTRYPOINT, ...image.CMD, "--port", port];
  const quoted = words.map((word) => `'${word}'`).join(" ");
  const server = start(`exec ${quoted}`, base, own);
  await untilListening(server, port);
  const [command, ...args] = image.HEALTHCHECK.map((word) => word.replace(":2532/", `:${port}/`));
  const healthy = spawnSync(command, args, { env: own, timeout: 10_000 });
  if (healthy.status !== 0) throw new Error(`the health check fails\n${server.output}`);
  server.kill("SIGTERM");
  const status = await server.ended;
  if (spawnSync(command, args, { env: own, timeout: 10_000 }).status === 0)
    throw new Error("the health check passes without a server");
  if (status !== 0) throw new Error(`SIGTERM ended it with ${status}\n${server.output}`);
}

if (isMain(import.meta.url)) {
  const base = mkdtempSync(join(tmpdir(), "sluice-container-"));
  try {
    await tryImage(base);
    console.log("container: its steps build, install, serve, and tell its health");
  } finally {
    await stopAll();
    rmSync(base, { recursive: true, force: true });
  }
}
