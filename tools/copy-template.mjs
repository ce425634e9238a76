// Copies the plugin template to a new folder, with packed tarballs of our packages beside it, so that it installs while they are
// not on npm, and against what is in this repository:   npm run template -- FOLDER
import { spawnSync } from "node:child_process";
import { cpSync, existsSync, mkdirSync, readdirSync, readFileSync, writeFileSync } from "node:fs";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const template = join(root, "templates", "storage-plugin");
const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));

/** Our packages that the template depends on, and those that they depend on. */
export const packageNames = ["core", "storage"];

/** Copies the template as it is. */
export function copyTemplate(target) {
  cpSync(template, target, {
    recursive: true,
    filter: (path) => !/[/\\](node_modules|dist)$/.test(path),
  });
}

/** Packs a package of this repository as it would be published; gives the name of the tarball. Needs the build. */
export function packInto(folder, name) {
  mkdirSync(folder, { recursive: true });
  const before = new Set(readdirSync(folder));
  const args = ["--yes", "--loglevel=error", packageManager, "pack", "--pack-destination", folder];
  const { status, stdout, stderr } = spawnSync("npx", args, {
    cwd: join(root, "packages", name),
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  if (status !== 0) throw new Error(`pnpm pack of ${name}\n${stdout}\n${stderr}`);
  return readdirSync(folder).find((file) => !before.has(file));
}

/** Makes a copy take our packages from its own folder `vendor`. */
export function vendorPackages(target) {
  const path = join(target, "package.json");
  const manifest = JSON.parse(readFileSync(path, "utf8"));
  for (const name of packageNames)
    manifest.dependencies[`@sluice/${name}`] =
      `file:vendor/${packInto(join(target, "vendor"), name)}`;
  writeFileSync(path, `${JSON.stringify(manifest, undefined, 2)}\n`);
}

if (isMain(import.meta.url)) {
  const target = resolve(process.argv[2] ?? "");
  if (process.argv[2] === undefined || existsSync(target)) {
    console.error("usage: npm run template -- FOLDER   (one that is not there yet)");
    process.exit(2);
  }
  copyTemplate(target);
  vendorPackages(target);
  console.log(`${target}: npm install && npm test`);
}
