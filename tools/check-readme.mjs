// Proves that the README's lines work as they are pasted, in order, in an empty folder: its packages are packed as it says and
// installed with npm; then its server runs, its client downloads, and its shell lines do the same. Needs the build, so it is part of
// `npm run check`.
import { mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { freePort } from "./free-port.mjs";
import { isMain } from "./is-main.mjs";
import { plainSettings, run, start, stop, stopAll, untilListening } from "./shell-lines.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
/** The default of `createSluice` and of `sluice serve`. */
const pastePort = "2532";

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

/** Our packages that a text names, without their scope, each once. */
function named(text) {
  const names = text.matchAll(/(?<=[\s"])(?:@sluice\/([\w-]+)|sluice(?=[\s"/]))/g);
  return [...new Set([...names].map(([, name = "sluice"]) => name))];
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

async function paste({ steps, serving }, folder) {
  const [work, clone] = [join(folder, "work"), join(folder, "clone")];
  for (const path of [work, clone]) mkdirSync(path);
  const port = await freePort();
  const endpoint = `http://127.0.0.1:${port}/mcp`;
  // the lines as they are pasted, but for a port that is free on this machine
  const env = { ...plainSettings(), XDG_STATE_HOME: join(folder, "state") };
  const here = (text) =>
    text
      .replaceAll(`:${pastePort}`, `:${port}`)
      .replace("createSluice({", `createSluice({ endpoint: "${endpoint}",`);
  const same = async (path) => {
    const [sent, got] = ["files/big.bin", path].map((name) => readFileSync(join(work, name)));
    if (!sent.equals(got)) throw new Error(`README: ${path} is not files/big.bin`);
  };
  const [install, packing, ...others] = steps;
  const [, ...prepare] = install.code.trim().split("\n");
  const [pack, fromPacked] = packing.code.trim().split("\n");
  const quiet = "--prefer-offline --no-audit --no-fund --loglevel=error";
  await run(pack.replace("npm run", `npm --prefix "${root}" run`), clone, env);
  await run(`${fromPacked} ${quiet}`, work, env);
  for (const line of prepare) await run(line, work, env);
  let server;
  let listing;
  const runHere = async (line) => {
    const isInstall = line.startsWith("npm install");
    const output = await run(isInstall ? `${line} ${quiet}` : line, work, env);
    if (!line.startsWith("npx sluice ls")) return;
    listing = line;
    if (!output.includes("files://local/big.bin")) throw new Error(`listed\n${output}`);
  };
  for (const { language, file, command, code } of others) {
    if (language === "sh") for (const line of here(code).trim().split("\n")) await runHere(line);
    else writeFileSync(join(work, file), here(code));
    if (command && server) await run(command, work, env);
    else if (command) await untilListening((server = start(command, work, env)), port);
  }
  await same("downloads/big.bin");
  await same("copies/big.bin");
  await stop(server);
  server = start(`${serving} --port ${port}`, work, env);
  await untilListening(server, port);
  await runHere(listing);
  await stop(server);
  return steps.length + 1;
}

if (isMain(import.meta.url)) {
  const markdown = readFileSync(join(root, "README.md"), "utf8");
  const steps = readSteps(markdown, "## Add it to your server", "## Run it for your company");
  const findings = lint(steps);
  for (const finding of findings) console.error(`README: ${finding}`);
  if (findings.length > 0) process.exit(1);
  const folder = mkdtempSync(join(tmpdir(), "sluice-readme-"));
  try {
    console.log(`README: ${await paste(steps, folder)} steps work when pasted in order`);
  } finally {
    await stopAll();
    rmSync(folder, { recursive: true, force: true });
  }
}
