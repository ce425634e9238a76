// Installs tarballs as users do, from a registry that serves them, in an empty folder: every public entry loads, every command
// prints its version, and the declarations check in projects of Node and of bundlers.
//   node tools/smoke-install.mjs FOLDER     FOLDER has the tarballs, as `npm run pack` writes them
import { spawnSync } from "node:child_process";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";
import { isInternal } from "./options-reference.mjs";
import { serveTarballs } from "./packed-registry.mjs";
import { plainSettings, run, stopAll } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const { packageManager } = JSON.parse(readFileSync(join(root, "package.json"), "utf8"));
const bun = join(root, "e2e/node_modules/@oven/bun-linux-x64/bin/bun");

/** Lines that install packages, by the name of their program. */
export const installers = {
  npm: (names) => `npm install --no-audit --no-fund --loglevel=error ${names}`,
  pnpm: (names) => `npx --yes --loglevel=error ${packageManager} add ${names}`,
  bun: (names) => `"${bun}" add --no-summary ${names}`,
};

const strict = {
  strict: true,
  noEmit: true,
  skipLibCheck: true,
  target: "es2023",
  types: ["node"],
};
/** Compiler options of users' projects. */
const projects = {
  nodenext: { ...strict, module: "nodenext" },
  bundler: { ...strict, module: "esnext", moduleResolution: "bundler", lib: ["es2023", "dom"] },
};

/** The public entries of a manifest, as a program imports them. */
export function publicEntries({ name, exports = {} }) {
  return Object.keys(exports)
    .map((entry) => name + entry.slice(1))
    .filter((entry) => !entry.endsWith(".json") && !isInternal(entry));
}

/** What is installed with manifests: our packages, and peers that are theirs, optional ones too. */
export function installedNames(manifests) {
  const ours = new Set(manifests.map(({ name }) => name));
  const peers = manifests.flatMap(({ peerDependencies = {} }) => Object.entries(peerDependencies));
  const others = new Map(peers.filter(([name]) => !ours.has(name)));
  return [
    ...manifests.map(({ name, version }) => `${name}@${version}`),
    ...[...others].map(([name, range]) => `${name}@${range}`),
  ];
}

/** The commands of manifests, each with the version that it prints. */
export const commandsOf = (manifests) =>
  manifests.flatMap(({ bin = {}, version }) => Object.keys(bin).map((name) => ({ name, version })));

/** A program that loads all entries, by its source. */
export const loader = (entries) =>
  entries.map((entry, i) => `import * as e${i} from "${entry}";\nvoid e${i};\n`).join("");

async function tryInstalled(folder, manifests, env) {
  const entries = manifests.flatMap(publicEntries);
  const program = join(folder, "load.mjs");
  writeFileSync(program, loader(entries));
  writeFileSync(join(folder, "load.ts"), loader(entries));
  await run(`node ${program}`, folder, env);
  for (const { name, version } of commandsOf(manifests)) {
    const printed = (await run(`node_modules/.bin/${name} --version`, folder, env)).trim();
    if (printed !== version)
      throw new Error(`${name} --version printed ${printed}, not ${version}`);
  }
  for (const [name, compilerOptions] of Object.entries(projects)) {
    const project = join(folder, `tsconfig.${name}.json`);
    writeFileSync(project, JSON.stringify({ compilerOptions, files: ["load.ts"] }));
    await run(`"${join(root, "node_modules/.bin/tsc")}" -p ${project}`, folder, env);
  }
  return entries.length;
}

/** Installs the tarballs of a folder with each installer that is there, and tries them. Rejects with what failed. */
export async function smokeInstall(tarballs) {
  const config = ["config", "get", "registry"];
  const { stdout } = spawnSync("npm", config, {
    encoding: "utf8",
    shell: process.platform === "win32",
  });
  const registry = await serveTarballs(tarballs, stdout.trim());
  const work = mkdtempSync(join(tmpdir(), "sluice-smoke-"));
  // settings of the npm that may run this program come before those of a folder
  const settings = Object.entries(plainSettings()).filter(([name]) => !name.startsWith("npm_"));
  const env = Object.fromEntries(settings);
  const names = [...installedNames(registry.manifests), "@types/node@20"].map(
    (name) => `"${name}"`,
  );
  try {
    for (const [installer, line] of Object.entries(installers)) {
      if (installer === "bun" && !existsSync(bun)) continue;
      const folder = join(work, installer);
      mkdirSync(folder);
      writeFileSync(join(folder, "package.json"), '{ "type": "module", "private": true }\n');
      // pnpm and Bun do not take it from the environment
      writeFileSync(join(folder, ".npmrc"), `registry=${registry.origin}\n`);
      await run(line(names.join(" ")), folder, env);
      const entries = await tryInstalled(folder, registry.manifests, env);
      console.log(`smoke: ${installer}: ${registry.manifests.length} packages, ${entries} entries`);
    }
  } finally {
    await stopAll();
    registry.close();
    rmSync(work, { recursive: true, force: true });
  }
}

if (isMain(import.meta.url)) {
  if (process.argv[2] === undefined) {
    console.error("usage: node tools/smoke-install.mjs FOLDER");
    process.exit(2);
  }
  await smokeInstall(resolve(process.argv[2]));
}
