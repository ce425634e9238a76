// Runs the official conformance suite against one reference server: plain, with Sluice attached, and through the
// bridge: as it is, with folders, and over HTTP. It fails when a single scenario scores differently: Sluice may not
// change what the SDK answers. The suite needs Node >= 22 and brings it along; the server runs on this Node.
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createInterface } from "node:readline";
import { fileURLToPath } from "node:url";
import { isMain } from "./is-main.mjs";

const root = dirname(dirname(fileURLToPath(import.meta.url)));
const suite = ["--package=node@24", "--package=@modelcontextprotocol/conformance@0.2.0-alpha.12"];
const revisions = ["2026-07-28", "2025-11-25"];
const deadlineMs = 240_000;

/** Scenario → "passed/failed", from the summary that the suite prints. */
export function scoresIn(output) {
  const summary = output.slice(output.lastIndexOf("=== SUMMARY ==="));
  const scores = new Map();
  for (const [, name, passed, failed] of summary.matchAll(
    /^[✓✗] (\S+): (\d+) passed, (\d+) failed/gm,
  ))
    scores.set(name, { passed: Number(passed), failed: Number(failed) });
  return scores;
}

const text = (score) => (score ? `${score.passed} passed, ${score.failed} failed` : "did not run");

/** One line for every scenario that scores differently or ran on one side only. */
export function differences(plain, attached) {
  return [...new Set([...plain.keys(), ...attached.keys()])]
    .map((name) => [name, text(plain.get(name)), text(attached.get(name))])
    .filter(([, before, after]) => before !== after)
    .map(([name, before, after]) => `${name}: ${before} without Sluice, ${after} with it`);
}

/** Starts the reference server; resolves with its URL and a way to end it. */
async function startServer(...args) {
  const child = spawn(
    process.execPath,
    ["--conditions=@sluice/source", "--import", "tsx", "e2e/conformance/main.ts", ...args],
    { cwd: root, stdio: ["ignore", "pipe", "inherit"] },
  );
  const [url] = await Promise.race([
    once(createInterface(child.stdout), "line"),
    once(child, "exit").then(() => Promise.reject(new Error("the reference server ended"))),
  ]);
  return { url, stop: () => child.kill() };
}

/** Everything the suite prints about `url`. It exits with 1 when any scenario fails: not our subject. */
async function runSuite(url, revision) {
  const results = mkdtempSync(join(tmpdir(), "conformance-"));
  const command = `conformance server --url ${url} --requirements ${revision} --output-dir ${results}`;
  const child = spawn("npx", ["--yes", "--loglevel=error", ...suite, "-c", command], {
    cwd: results,
    stdio: ["ignore", "pipe", "inherit"],
    timeout: deadlineMs,
  });
  let output = "";
  child.stdout.setEncoding("utf8").on("data", (chunk) => (output += chunk));
  await once(child, "close");
  rmSync(results, { recursive: true, force: true });
  return output;
}

async function measure(revision, ...args) {
  const server = await startServer(...args);
  try {
    return scoresIn(await runSuite(server.url, revision));
  } finally {
    server.stop();
  }
}

function total(scores) {
  let passed = 0;
  let failed = 0;
  for (const score of scores.values()) {
    passed += score.passed;
    failed += score.failed;
  }
  return `${text({ passed, failed })} in ${scores.size} scenarios`;
}

if (isMain(import.meta.url)) {
  let broken = 0;
  for (const revision of revisions) {
    const [plain, attached] = await Promise.all([measure(revision), measure(revision, "--attach")]);
    const bridged = await measure(revision, "--bridge");
    const filing = await measure(revision, "--bridge-files");
    // the bridge has sessions for older clients, which the reference server without them cannot show
    const sessional = await measure(revision, "--sessions");
    const hosted = await measure(revision, "--bridge-http");
    console.log(`${revision} without Sluice: ${total(plain)}`);
    console.log(`${revision} with Sluice: ${total(attached)}`);
    console.log(`${revision} through the bridge: ${total(bridged)}`);
    console.log(`${revision} through the bridge with folders: ${total(filing)}`);
    console.log(`${revision} with sessions of the SDK: ${total(sessional)}`);
    console.log(`${revision} through the bridge over HTTP: ${total(hosted)}`);
    if (plain.size === 0) {
      console.error(`${revision}: the suite printed no summary`);
      broken++;
    }
    const lines = [attached, bridged, filing].flatMap((other) => differences(plain, other));
    for (const line of [...lines, ...differences(sessional, hosted)]) {
      console.error(`${revision} ${line}`);
      broken++;
    }
  }
  if (broken > 0) process.exit(1);
  console.log("conformance: every scenario scores the same with and without Sluice");
}
