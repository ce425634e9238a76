// Makes a release of all packages: version, changelog, build, pack, installation of every tarball, commit and tag.
//   npm run release -- --dry-run     all of it but the commit and the tag; leaves the tree as it was
//   npm run release                  then `git push --follow-tags` has the workflow upload it
//   npm run release -- --upload      uploads the version that HEAD is tagged with
//   npm run release -- --canary      uploads this commit as a version before the next one, under the tag `canary`
// The workflow uploads with its own identity and a proof of origin. A release is only staged there: it is public after a
// maintainer approved it.
import { spawnSync } from "node:child_process";
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import readChangesets from "@changesets/read";
import { isMain } from "./is-main.mjs";
import { slugOf } from "./manifests.mjs";
import { packAll, packageManifest, withDependencies } from "./pack.mjs";
import {
  canaryVersion,
  commonVersion,
  kindOf,
  nextVersion,
  plannedFiles,
  tarballOf,
  withVersion,
} from "./release-plan.mjs";
import { stopAll } from "./shell-lines.mjs";
import { smokeInstall } from "./smoke-install.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const read = (path) => readFileSync(join(root, path), "utf8");
/** The npm that uploads: the one of a Node may not stage yet. */
const npm = ["--yes", "--loglevel=error", "npm@11.19.1"];
const modes = ["--dry-run", "--upload", "--canary"];

/** Runs a command to its end and gives what it printed. Throws when it fails. */
function run(command, args, options) {
  const settings = { cwd: root, encoding: "utf8", shell: process.platform === "win32", ...options };
  const { status, stdout, stderr, error } = spawnSync(command, args, settings);
  if (status === 0) return stdout?.trim();
  throw new Error(`${command} ${args.join(" ")}\n${stdout ?? ""}${stderr ?? ""}`, { cause: error });
}
const git = (...args) => run("git", args);

const countNeeds = (name) => withDependencies([name], packageManifest).length;

/** The short name of the commit that added a changeset. */
const commitOf = ({ id }) =>
  git("log", "-1", "--diff-filter=A", "--format=%h", "--", `.changeset/${id}.md`);

/** The folders of the packages, each after those that it needs: who installs during an upload finds all of them. */
function packageNames() {
  const named = readdirSync(join(root, "packages")).filter(
    (name) => !packageManifest(name).private,
  );
  return named.toSorted((a, b) => countNeeds(a) - countNeeds(b));
}

/** The files that have our version: manifests, those of registries, and the template, whose ranges follow. */
function versionedFiles(names) {
  const manifests = names.map((name) => `packages/${name}/package.json`);
  const others = [
    "server.json",
    "templates/claude-desktop/manifest.json",
    "templates/storage-plugin/package.json",
  ];
  const paths = [...manifests, ...others.filter((path) => existsSync(join(root, path)))];
  return Object.fromEntries(paths.map((path) => [path, read(path)]));
}

/** The files of a release or of a canary, by path, and their version. */
async function plan(mode, names) {
  const from = commonVersion(names.map(packageManifest));
  const changesets = await readChangesets(root);
  const kind = kindOf(changesets);
  if (mode === "--canary") {
    const next = nextVersion(from, kind ?? "patch");
    const to = canaryVersion(next, new Date(), git("rev-parse", "HEAD"));
    const files = Object.entries(versionedFiles(names));
    return {
      to,
      files: Object.fromEntries(files.map(([path, text]) => [path, withVersion(text, from, to)])),
    };
  }
  if (kind === undefined)
    throw new Error("there is no changeset: write one with npm run changeset");
  const to = nextVersion(from, kind);
  const files = plannedFiles({
    files: versionedFiles(names),
    from,
    to,
    changesets: changesets.map((changeset) => ({ ...changeset, commit: commitOf(changeset) })),
    changelog: existsSync(join(root, "CHANGELOG.md")) ? read("CHANGELOG.md") : undefined,
    date: new Date().toISOString().slice(0, 10),
    home: `https://github.com/${slugOf(JSON.parse(read("package.json")))}`,
    packages: names.length,
  });
  return { to, files };
}

/** Writes files by path, and removes those without a text; gives how they were before. */
function write(files) {
  const before = Object.keys(files).map((path) => [
    path,
    existsSync(join(root, path)) ? read(path) : undefined,
  ]);
  for (const [path, text] of Object.entries(files))
    if (text === undefined) rmSync(join(root, path), { force: true });
    else writeFileSync(join(root, path), text);
  return Object.fromEntries(before);
}

/** Builds, packs and installs every package; the tarballs are in `folder`. */
async function makeTarballs(folder) {
  const { packageManager } = JSON.parse(read("package.json"));
  const pnpm = ["--yes", "--loglevel=error", packageManager, "exec"];
  const build = ["turbo", "run", "build", "--filter=./packages/*", "--output-logs=errors-only"];
  run("npx", [...pnpm, ...build], { stdio: "inherit" });
  console.log(`${packAll(folder, []).length} packages are packed`);
  await smokeInstall(folder);
}

/** Uploads tarballs in the order of names. Versions that the registry has are left out, so an upload can be repeated. */
function upload(folder, names, version, isCanary) {
  const isWorkflow = process.env.GITHUB_ACTIONS === "true";
  // a canary is for tests of today, and nobody approves each of them
  const publish = isWorkflow && !isCanary ? ["stage", "publish"] : ["publish"];
  const tag = isCanary ? "canary" : "latest";
  const options = ["--access=public", `--tag=${tag}`, ...(isWorkflow ? ["--provenance"] : [])];
  for (const name of names) {
    const id = `${packageManifest(name).name}@${version}`;
    const { stdout } = spawnSync("npm", ["view", id, "version"], {
      encoding: "utf8",
      shell: process.platform === "win32",
    });
    if (stdout.trim() === version) console.log(`${id} is on the registry`);
    else
      run("npx", [...npm, ...publish, join(folder, tarballOf(id)), ...options], {
        stdio: "inherit",
      });
  }
}

/** Makes a release; each mode as the head of this file says. */
async function release(mode) {
  if (git("status", "--porcelain") !== "")
    throw new Error("the tree has changes: commit them first");
  const names = packageNames();
  const folder = mkdtempSync(join(tmpdir(), "sluice-release-"));
  const { to, files } =
    mode === "--upload"
      ? { to: commonVersion(names.map(packageManifest)), files: {} }
      : await plan(mode, names);
  if (mode === "--upload" && !git("tag", "--points-at", "HEAD").split("\n").includes(`v${to}`))
    throw new Error(`HEAD has no tag v${to}: run npm run release, and push what it tags`);
  // what is interrupted fails, and the tree is put back
  process.once("SIGINT", () => void stopAll());
  const before = write(files);
  let isDone = false;
  try {
    await makeTarballs(folder);
    if (mode === "--upload" || mode === "--canary") upload(folder, names, to, mode === "--canary");
    isDone = mode === undefined;
  } finally {
    if (!isDone) write(before);
    rmSync(folder, { recursive: true, force: true });
  }
  if (!isDone)
    return console.log(`release: ${to}, ${names.length} packages: ${mode.slice(2)} is over`);
  git("add", "--", ...Object.keys(files));
  git("commit", "--quiet", "-m", `release: ${to}`);
  git("tag", "-a", `v${to}`, "-m", `Sluice ${to}`);
  console.log(`release: ${to} is committed and tagged; upload it with: git push --follow-tags`);
}

if (isMain(import.meta.url)) {
  const [mode, ...rest] = process.argv.slice(2);
  if (rest.length > 0 || (mode !== undefined && !modes.includes(mode))) {
    console.error(`usage: npm run release -- [${modes.join(" | ")}]`);
    process.exit(2);
  }
  try {
    await release(mode);
  } catch (error) {
    console.error(`release: ${error.message}`);
    process.exit(1);
  }
}
