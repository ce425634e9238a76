// Proves that the two commands at the top of the README work where nothing is installed: in empty folders, with an empty home,
// from a registry that has our packages as a release would publish them. One serves a folder, the other saves a file of it.
// Needs the build and a registry for the packages of others, so it is part of `npm run check`.
import { spawnSync } from "node:child_process";
import { randomBytes } from "node:crypto";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";
import { isMain } from "./is-main.mjs";
import { packageManifest, withDependencies } from "./pack.mjs";
import { startRegistry } from "./packed-registry.mjs";
import { plainSettings, run, start, stop, stopAll, untilListening } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const usualPort = "2532";
const installingMs = 300_000;

/** The first lines of a page that serve a folder and save a file, without what stands behind `#`. */
export function npxLines(markdown) {
  const find = (command) =>
    new RegExp(`^npx sluice ${command} [^#\\n]*[^#\\s]`, "m").exec(markdown)?.[0];
  const [serving, saving] = [find("serve"), find("get")];
  if (serving === undefined || saving === undefined)
    throw new Error("the page has no lines `npx sluice serve …` and `npx sluice get …`");
  const [, name, copies] = /files:\/\/local\/(\S+) -o (\S+\/)$/.exec(saving) ?? [];
  if (name === undefined)
    throw new Error(`\`${saving}\` saves no file of files://local/ into another folder`);
  return { serving, saving, name, copies };
}

/** Settings of a user who has none: neither those of this home, nor of the `npm` that may run this program. */
function withEmptyHome(home, registry) {
  const names = Object.keys(plainSettings()).filter(
    (name) => !/^(?:npm_|XDG_|INIT_CWD$)/.test(name),
  );
  const env = Object.fromEntries(names.map((name) => [name, process.env[name]]));
  return { ...env, HOME: home, npm_config_registry: registry };
}

async function tryLines({ serving, saving, name, copies }, folder) {
  const served = join(folder, "served");
  mkdirSync(served);
  const content = randomBytes(8 * 1024 * 1024 + 1);
  writeFileSync(join(served, name), content);
  const { stdout: upstream } = spawnSync("npm", ["config", "get", "registry"], {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  const names = withDependencies(["sluice"], packageManifest);
  const registry = await startRegistry(join(folder, "registry"), names, upstream.trim());
  const port = await freePort();
  const envOf = (home) => {
    mkdirSync(join(folder, home));
    return withEmptyHome(join(folder, home), registry.origin);
  };
  try {
    const server = start(`${serving} --port ${port}`, served, envOf("home-of-server"));
    await untilListening(server, port, installingMs);
    await run(saving.replaceAll(`:${usualPort}`, `:${port}`), served, envOf("home-of-client"));
    if (!readFileSync(join(served, copies, name)).equals(content))
      throw new Error(`${saving}: ${name} is not the file that is served`);
    await stop(server);
  } finally {
    registry.close();
  }
}

if (isMain(import.meta.url)) {
  const folder = mkdtempSync(join(tmpdir(), "sluice-npx-"));
  try {
    await tryLines(npxLines(readFileSync(join(root, "README.md"), "utf8")), folder);
    console.log("npx: from nothing to a served folder and a saved file in two commands");
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}
