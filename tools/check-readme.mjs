// Proves that the README's lines work as they are pasted, in order, in an empty folder: its packages are packed as it says and
// installed with npm; then its server runs, its client downloads, and its shell lines do the same. Needs the build, so it is part of
// `npm run check`.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const deadlineMs = 300_000;
const pastePort = "3000";

/** The fences between two headings, each with the name that the sentence before it gives it. */
export function readSteps(markdown, from, to) {
  const first = markdown.indexOf(`\n${from}\n`);
  const end = markdown.indexOf(`\n${to}\n`, first);
  if (first < 0 || end < 0) throw new Error(`README.md has no "${from}" before "${to}"`);
  const section = markdown.slice(first, end);
  let last = 0;
  const steps = [];
  for (const match of section.matchAll(/^```(sh|ts)[^\n]*\n([\s\S]*?)^```$/gm)) {
    const [whole, language, code] = match;
    const [, file, command] =
      /Save this as `([\w.-]+)` and run `([^`]+)`/.exec(section.slice(last, match.index)) ?? [];
    last = match.index + whole.length;
    steps.push({ language, code, file, command });
  }
  const inline = [...section.matchAll(/`(npx sluice serve [^`]+)`/g)].map(([, line]) => line);
  return { section, steps, serving: inline[0] };
}

/** Our packages that a text names, without their scope. */
function named(text) {
  return [...text.matchAll(/@sluice\/([\w-]+)/g)].map(([, name]) => name);
}

/** What is wrong with the section before anything of it is run. */
export function lint({ section, steps, serving }) {
  const findings = [];
  const ports = new Set([...section.matchAll(/127\.0\.0\.1:(\d+)/g)].map(([, port]) => port));
  if (ports.size !== 1 || !ports.has(pastePort)) findings.push(`ports: ${[...ports].join(", ")}`);
  const uris = new Set([...section.matchAll(/files:\/\/(\w+)\//g)].map(([, name]) => name));
  if (uris.size !== 1) findings.push(`bases: ${[...uris].join(", ")}`);
  const [install = "", packing = ""] = steps
    .filter(({ language }) => language === "sh")
    .map(({ code }) => code);
  const packed = /npm run pack -- \S+ ([\w -]+?)\s*(?:#|$)/m.exec(packing)?.[1]?.split(" ") ?? [];
  if (named(install).join() !== packed.join())
    findings.push(`installed are ${named(install).join(", ")}, packed ${packed.join(", ")}`);
  const imported = steps
    .filter(({ language }) => language === "ts")
    .flatMap(({ code }) => named(code));
  const missing = imported.filter((name) => !packed.includes(name));
  if (missing.length > 0) findings.push(`imported and not installed: ${missing.join(", ")}`);
  if (serving === undefined) findings.push("no line serves a folder without a program");
  return findings;
}

const children = new Set();

/** Starts a line of a shell. Its processes are a group, so that all of them can be ended. */
function start(line, cwd, env) {
  const child = spawn("sh", ["-c", line], { cwd, env, detached: true });
  children.add(child);
  child.output = "";
  for (const stream of [child.stdout, child.stderr])
    stream.setEncoding("utf8").on("data", (text) => (child.output += text));
  child.ended = once(child, "close").then(([status]) => {
    children.delete(child);
    return status;
  });
  return child;
}

async function stop(child) {
  try {
    process.kill(-child.pid, "SIGTERM");
  } catch {
    // it has ended
  }
  await child.ended;
}

/** Runs a line to its end; what it printed is shown only when it fails. */
async function run(line, cwd, env) {
  const child = start(line, cwd, env);
  const late = setTimeout(() => void stop(child), deadlineMs);
  const status = await child.ended;
  clearTimeout(late);
  if (status !== 0) throw new Error(`README: ${line}\n${child.output}`);
  return child.output;
}

async function untilListening(child, port) {
  for (let tries = 0; tries < 200; tries++) {
    const answers = await fetch(`http://127.0.0.1:${port}/mcp`).then(
      () => true,
      () => false,
    );
    if (answers) return;
    if (!children.has(child)) throw new Error(`README: a server ended\n${child.output}`);
    await new Promise((resolve) => setTimeout(resolve, 100));
  }
  throw new Error(`README: nothing listens after 20 s\n${child.output}`);
}

async function paste({ steps, serving }, folder) {
  const [work, clone] = [join(folder, "work"), join(folder, "clone")];
  for (const path of [work, clone]) mkdirSync(path);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  const {
    SLUICE_KEYS: _keys,
    SLUICE_TOKEN: _token,
    NODE_OPTIONS: _options,
    ...inherited
  } = process.env;
  // the lines as they are pasted, but for a port that is free on this machine
  const env = {
    ...inherited,
    PORT: `${port}`,
    PUBLIC_URL: endpoint,
    XDG_STATE_HOME: join(folder, "state"),
  };
  const here = (text) =>
    text
      .replaceAll(`:${pastePort}`, `:${port}`)
      .replaceAll(`--port ${pastePort}`, `--port ${port}`);
  const same = async (path) => {
    const [sent, got] = ["files/big.bin", path].map((name) => readFileSync(join(work, name)));
    if (!sent.equals(got)) throw new Error(`README: ${path} is not files/big.bin`);
  };
  const [install, packing, ...shell] = steps.filter(({ language }) => language === "sh");
  const programs = steps.filter(({ language }) => language === "ts");
  const [, ...prepare] = install.code.trim().split("\n");
  const [pack, fromPacked] = packing.code.trim().split("\n");
  await run(pack.replace("npm run", `npm --prefix "${root}" run`), clone, env);
  await run(`${fromPacked} --prefer-offline --no-audit --no-fund --loglevel=error`, work, env);
  for (const line of prepare) await run(line, work, env);
  let server;
  for (const { file, command: line, code } of programs) {
    writeFileSync(join(work, file), here(code));
    if (server) await run(line, work, env);
    else await untilListening((server = start(line, work, env)), port);
  }
  await same("downloads/big.bin");
  const lines = shell.flatMap(({ code }) => here(code).trim().split("\n"));
  const listed = [];
  for (const line of lines) listed.push(await run(line, work, env));
  if (!listed[0].includes("files://demo/big.bin")) throw new Error(`README: listed\n${listed[0]}`);
  await same("copies/big.bin");
  await stop(server);
  server = start(here(serving), work, env);
  await untilListening(server, port);
  const again = await run(lines[0], work, env);
  if (!again.includes("files://demo/big.bin"))
    throw new Error(`README: ${serving} lists\n${again}`);
  await stop(server);
  return programs.length + lines.length + prepare.length + 3;
}

if (process.argv[1] === fileURLToPath(import.meta.url)) {
  const markdown = readFileSync(join(root, "README.md"), "utf8");
  const steps = readSteps(markdown, "## Add it to a server", "## What you get");
  const findings = lint(steps);
  for (const finding of findings) console.error(`README: ${finding}`);
  if (findings.length > 0) process.exit(1);
  const folder = mkdtempSync(join(tmpdir(), "sluice-readme-"));
  try {
    console.log(`README: ${await paste(steps, folder)} steps work when pasted in order`);
  } finally {
    await Promise.all([...children].map(stop));
    rmSync(folder, { recursive: true, force: true });
  }
}
