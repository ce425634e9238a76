// Needs nothing but Node and npm. Brings in the pinned pnpm, installs when the lockfile
// changed, then runs a task:   node tools/run.mjs TASK [args...]
import { spawn, spawnSync } from "node:child_process";
import { createHash } from "node:crypto";
import { once } from "node:events";
import { existsSync, mkdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { availableParallelism } from "node:os";
import { delimiter, dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { hashTree } from "./hash-tree.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (file) => readFileSync(join(root, file), "utf8");
const { packageManager, engines } = JSON.parse(read("package.json"));
const [major, minor] = process.versions.node.split(".").map(Number);
if (major < 20 || (major === 20 && minor < 19)) {
  console.error(`Node ${engines.node} is needed; this is ${process.version}.`);
  process.exit(1);
}

const windows = process.platform === "win32";
const env = {
  ...process.env,
  PATH: join(root, "node_modules", ".bin") + delimiter + process.env.PATH,
  DO_NOT_TRACK: "1",
  TURBO_TELEMETRY_DISABLED: "1",
};

/** Runs a command to its end and stops here when it fails. */
function run(command, ...args) {
  const result = spawnSync(command, args, { cwd: root, env, stdio: "inherit", shell: windows });
  if (result.error) throw result.error;
  if (result.status !== 0) process.exit(result.status ?? 1);
}
// tsc and the linter take long and run at the same time: with more threads than processors each of
// them would only work out the same types several times over
const threads = `${Math.max(1, Math.floor(availableParallelism() / 2))}`;
// what has not changed since is not checked again
const cache = join(root, "node_modules", ".cache");
const typesSeen = join(cache, "tsc.tsbuildinfo");
const typeCheck = ["tsc", "--checkers", threads, "--incremental", "--tsBuildInfoFile", typesSeen];

/** Runs checks beside each other; each prints when it is over, and any that fails stops here. */
async function runTogether(...commands) {
  const together = { ...env, GOMAXPROCS: threads, GOGC: "200" };
  const runs = commands.map(async ([command, ...args]) => {
    const child = spawn(command, args, { cwd: root, env: together, shell: windows });
    const output = [];
    for (const stream of [child.stdout, child.stderr])
      stream.on("data", (chunk) => output.push(chunk));
    const [status] = await once(child, "close");
    process.stdout.write(Buffer.concat(output));
    return status;
  });
  const failed = (await Promise.all(runs)).find((status) => status !== 0);
  if (failed !== undefined) process.exit(failed ?? 1);
}
const tool = (name) => [process.execPath, `tools/${name}.mjs`];

/** Types, lint and layers, unless they passed on the very same files before: they read nothing else. */
async function runStaticChecks() {
  const stamp = join(cache, "static-checks");
  const want = hashTree(root);
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === want) {
    console.log("types, lint, layers: no file changed since they passed");
    return;
  }
  rmSync(stamp, { force: true });
  await runTogether(typeCheck, ["oxlint"], tool("check-layers"), tool("check-targets"));
  if (hashTree(root) !== want) return;
  mkdirSync(cache, { recursive: true });
  writeFileSync(stamp, want);
}
/** The pnpm that package.json pins, through npm's own runner, which asks no question. */
const pnpm = (...args) => run("npx", "--yes", "--loglevel=error", packageManager, ...args);
/** A TypeScript program of this workspace, run from source. */
const program = (file, ...args) =>
  run(process.execPath, "--conditions=@sluice/source", "--import", "tsx", file, ...args);

function install() {
  const hash = createHash("sha256").update(process.platform + process.arch);
  for (const file of ["package.json", "pnpm-lock.yaml", "pnpm-workspace.yaml"])
    hash.update(read(file));
  const want = hash.digest("hex");
  const stamp = join(root, "node_modules", ".installed-for");
  if (existsSync(stamp) && readFileSync(stamp, "utf8") === want) return;
  pnpm("install", "--frozen-lockfile", "--prefer-offline", "--reporter=append-only");
  writeFileSync(stamp, want);
}

const [task, ...rest] = process.argv.slice(2);
const tasks = {
  install() {},
  demo: () => program("apps/demo-server/src/demo.ts", ...rest),
  cluster: () => program("apps/cluster/src/cluster.ts", ...rest),
  simulate: () => program("apps/simulation/src/main.ts", ...rest),
  "simulate:night": () => program("apps/simulation/src/main.ts", "--hours", "8", ...rest),
  bench: () => program("apps/bench/src/main.ts", ...rest),
  async test() {
    await runStaticChecks();
    run("vitest", "run", "--tags-filter=!slow", ...rest);
  },
  "test:slow": () => run("vitest", "run", "--tags-filter=slow", ...rest),
  "test:deep"() {
    env.SLUICE_DEEP = "1";
    run("vitest", "run", ...rest);
  },
  build: () => pnpm("exec", "turbo", "run", "build", ...rest),
  pack() {
    pnpm("exec", "turbo", "run", "build", "--filter=./packages/*", "--output-logs=errors-only");
    run(process.execPath, "tools/pack.mjs", ...rest);
  },
  check() {
    run("oxfmt", "--check");
    run(process.execPath, "tools/check-snippets.mjs");
    run(process.execPath, "tools/check-links.mjs");
    run(process.execPath, "tools/check-words.mjs");
    run(process.execPath, "tools/manifests.mjs", "--check");
    run(process.execPath, "tools/check-workflows.mjs");
    run(process.execPath, "tools/options-reference.mjs", "--check");
    run(process.execPath, "tools/llms-text.mjs", "--check");
    run(process.execPath, "tools/check-exports.mjs");
    run(process.execPath, "tools/check-regexps.mjs");
    pnpm("exec", "turbo", "run", "build", "check:package", "--output-logs=errors-only");
    run(process.execPath, "tools/check-template.mjs");
    run(process.execPath, "tools/check-readme.mjs");
    run(process.execPath, "tools/check-npx.mjs");
    run(process.execPath, "tools/check-runtimes.mjs");
    run(process.execPath, "tools/check-container.mjs");
    program("e2e/storage-matrix/main.ts");
    run("knip");
  },
  template() {
    pnpm("exec", "turbo", "run", "build", "--filter=@sluice/storage", "--output-logs=errors-only");
    run(process.execPath, "tools/copy-template.mjs", ...rest);
  },
  matrix: () => program("e2e/storage-matrix/main.ts", "--write"),
  fix() {
    run("oxlint", "--fix");
    run("oxfmt");
  },
  changeset: () => run("changeset", "add", ...rest),
  release: () => run(process.execPath, "tools/release.mjs", ...rest),
};
if (!Object.hasOwn(tasks, task ?? "")) {
  console.error(`usage: node tools/run.mjs ${Object.keys(tasks).join("|")} [args...]`);
  process.exit(2);
}
install();
await tasks[task]();
