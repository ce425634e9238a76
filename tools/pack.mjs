// Packs packages of this repository as they would be published, with the ones of ours that they need:
//   node tools/pack.mjs FOLDER [NAME...]     all of them when none is named; with or without @sluice/. Needs the build.
import { spawnSync } from "node:child_process";
import { mkdirSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (file) => JSON.parse(readFileSync(join(root, file), "utf8"));

/** The manifest of a package, by its folder. */
export const packageManifest = (name) => read(`packages/${name}/package.json`);

/** The folder of a package, by its name or itself. */
export const folderOf = (name) => name.replace(/^@sluice\//, "");

const deadlineMs = 300_000;

/** Names of packages and of what they need of this repository, each once; an optional peer is not needed. */
export function withDependencies(names, manifestOf) {
  const found = new Set();
  const add = (name) => {
    if (found.has(name)) return;
    found.add(name);
    const manifest = manifestOf(name);
    const { dependencies = {}, peerDependencies = {}, peerDependenciesMeta = {} } = manifest;
    const peers = Object.keys(peerDependencies).filter(
      (peer) => !peerDependenciesMeta[peer]?.optional,
    );
    for (const dependency of [...Object.keys(dependencies), ...peers])
      if (dependency.startsWith("@sluice/")) add(dependency.slice("@sluice/".length));
  };
  names.forEach(add);
  return [...found];
}

/** Packs packages into a folder, in one run of the packer. Rejects with what it printed. */
function pack(names, folder) {
  const { packageManager } = read("package.json");
  const filters = names.map((name) => `--filter=./packages/${name}`);
  const args = ["--yes", "--loglevel=error", packageManager, ...filters, "pack"];
  const { status, stdout, stderr, error } = spawnSync(
    "npx",
    [...args, "--pack-destination", folder],
    {
      cwd: root,
      encoding: "utf8",
      shell: process.platform === "win32",
      timeout: deadlineMs,
    },
  );
  if (status !== 0) throw new Error(`packing:\n${stdout}\n${stderr}`, { cause: error });
}

/** Packs what is named, or everything, and gives the names. */
export function packAll(folder, names) {
  const every = readdirSync(join(root, "packages")).filter(
    (name) => !packageManifest(name).private,
  );
  const unknown = names.find((name) => !every.includes(name));
  if (unknown !== undefined) throw new Error(`there is no package ${unknown}: ${every.join(", ")}`);
  mkdirSync(folder, { recursive: true });
  const wanted = names.length === 0 ? every : names;
  const packed = withDependencies(wanted, packageManifest);
  pack(packed, folder);
  return packed;
}

if (isMain(import.meta.url)) {
  const [folder, ...named] = process.argv.slice(2);
  const names = named.map(folderOf);
  if (folder === undefined) {
    console.error("usage: npm run pack -- FOLDER [NAME...]");
    process.exit(2);
  }
  // npm moves to the repository; the folder was named from where the user is
  const target = resolve(process.env.INIT_CWD ?? "", folder);
  try {
    console.log(`${packAll(target, names).join(", ")}: packed into ${target}`);
  } catch (error) {
    console.error(`pack: ${error.message}`);
    process.exit(1);
  }
}
