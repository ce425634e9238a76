// Proves that the plugin template works where a newcomer puts it: copied out of this repository,
// installed with npm against packed tarballs of our packages, then checked and tested as its README
// says. Needs the build, so it is part of `npm run check`.
import { spawnSync } from "node:child_process";
import { cpSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const template = join(root, "templates", "storage-plugin");
const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const windows = process.platform === "win32";
const deadlineMs = 120_000;

/** Runs a command to its end; what it printed is shown only when it fails. */
function run(cwd, command, ...args) {
  const { status, stdout, stderr, error } = spawnSync(command, args, {
    cwd,
    encoding: "utf8",
    shell: windows,
    timeout: deadlineMs,
  });
  if (status === 0) return stdout;
  throw new Error(`${command} ${args.join(" ")}\n${stdout}\n${stderr}`, { cause: error });
}

/** Packs a package of this repository as it would be published; gives the path of the tarball. */
function pack(name, folder) {
  const target = join(folder, name);
  const pnpm = ["--yes", "--loglevel=error", packageManager];
  run(join(root, "packages", name), "npx", ...pnpm, "pack", "--pack-destination", target);
  return join(target, readdirSync(target)[0]);
}

const folder = mkdtempSync(join(tmpdir(), "sluice-template-"));
try {
  const copy = join(folder, "plugin");
  cpSync(template, copy, {
    recursive: true,
    filter: (path) => !/[/\\](node_modules|dist)$/.test(path),
  });
  const manifest = JSON.parse(readFileSync(join(copy, "package.json"), "utf8"));
  for (const name of ["core", "storage"])
    manifest.dependencies[`@sluice/${name}`] = `file:${pack(name, folder)}`;
  writeFileSync(join(copy, "package.json"), JSON.stringify(manifest));
  run(copy, "npm", "install", "--prefer-offline", "--no-audit", "--no-fund", "--loglevel=error");
  run(copy, "npm", "run", "check");
  const output = run(copy, "npm", "test");
  const passed = Number(/^(?:# |ℹ )pass (\d+)$/m.exec(output)?.[1] ?? 0);
  if (passed < 50) throw new Error(`the template ran ${passed} rules only\n${output}`);
  console.log(`template: copied, installed, checked; ${passed} tests passed`);
} finally {
  rmSync(folder, { recursive: true, force: true });
}
