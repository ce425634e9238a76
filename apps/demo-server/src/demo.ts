// The main job, end to end, over real files:   npm run demo [folder]
// Server and client run in processes of their own: server-process.ts and client-process.ts.
import { join, resolve } from "node:path";
import { styleText } from "node:util";
import { createProgressBar, formatBytes, formatDuration } from "@sluice/cli/internal";
import { readAuditStory } from "./lib/audit-story.ts";
import { createCuttingProxy } from "./lib/cutting-proxy.ts";
import { addRealFiles, createWorkFolder } from "./lib/demo-files.ts";
import { digestOf } from "./lib/digest.ts";
import { noteUri } from "./lib/notes.ts";
import { fetchOthers } from "./lib/other-trial.ts";
import { createPicture, runPictureTrials } from "./lib/picture-trial.ts";
import { archiveUri, reportUri } from "./lib/provide-made.ts";
import { formatComparison, formatResults } from "./lib/results.ts";
import { startStorageService } from "./lib/storage-service.ts";
import { listFiles, runTrial, type DemoFile, type Result, type Trial } from "./lib/trial.ts";

/** Base64 of more than this does not fit into one JavaScript string. */
const mostBase64Bytes = 380 * 1024 ** 2;

/** Less is over before a line can break. */
const leastBytes = 64 * 1024;

const startedAt = performance.now();
const bar = createProgressBar(process.stdout);
const work = createWorkFolder();
const downloads = createWorkFolder();
const records = createWorkFolder();
process.on("exit", () => [work, downloads, records].forEach((folder) => folder.remove()));
process.on("SIGINT", () => process.exit(130));

const [given] = process.argv.slice(2);
if (given === undefined) addRealFiles(work.path);
// npm moves to the repository; the folder was named from where the user is
const folder = given === undefined ? work.path : resolve(process.env["INIT_CWD"] ?? "", given);
const trail = join(records.path, "audit.log");
const place = { folder, trail, downloads: downloads.path, bar };
try {
  await tell();
  await showTrail();
  say(`\nDone in ${formatDuration(performance.now() - startedAt)}.`);
} catch (error) {
  say(`\ndemo: ${error instanceof Error ? error.message : String(error)}`);
  process.exitCode = 1;
}

async function tell(): Promise<void> {
  const file = await chooseFile();

  heading(`Download ${file.uri} (${formatBytes(file.size)}) in each of the three modes`);
  const direct = await show(file, { ...place, way: "direct" });
  say("    the answer to resources/stream is the bytes themselves");
  const redirect = await showRedirect(file);
  const downloadUrl = await show(file, { ...place, way: "downloadUrl" });
  say("    the answer is a sealed URL, and a GET to it brings the bytes");

  heading("The messages over a WebSocket, the bytes beside it");
  await show(file, { ...place, way: "websocket" });
  say("    the answer on the socket is a sealed URL, and HTTP brings the bytes");

  heading("Once more, over a line that breaks in the middle");
  await showBreak(file);

  heading("A second storage, and what is made when it is asked for");
  await showOthers();

  await showPictures();

  heading("Without Sluice: resources/read, base64 inside one JSON message");
  if (file.size > mostBase64Bytes) {
    say("  cannot be done: base64 of this file fits into no JavaScript string");
    showCosts([direct, redirect, downloadUrl]);
    return;
  }
  const base64 = await show(file, { ...place, way: "base64" });
  showCosts([direct, redirect, downloadUrl, base64]);
  say(`  ${formatComparison(direct, base64)}`);
}

/** The other way: a tool asks for a file, and the client sends it. */
async function showPictures(): Promise<void> {
  heading("The way in: a tool asks the user for a picture, and says what came");
  const studio = createWorkFolder();
  try {
    const picture = await createPicture(studio.path);
    for (const { era, durationMs } of await runPictureTrials(picture, {
      folder: studio.path,
      trail,
    })) {
      const time = formatDuration(durationMs).padStart(6);
      const verdict = `${styleText("green", "✓")} ${picture.width} × ${picture.height}, SHA-256 is that of the file`;
      say(`  ${era.padEnd(12)} ${time}  ${verdict}`);
    }
    say(
      `    the question has a URL, ${formatBytes(picture.bytes)} go there by HTTP, and the answer names them`,
    );
  } finally {
    studio.remove();
  }
}

/** Lists the folder through a server, and takes the largest file that fits the demo. */
async function chooseFile(): Promise<DemoFile> {
  heading(`Real files in ${folder}, listed by an MCP server in Express`);
  const files = await listFiles(folder, trail);
  files.sort((a, b) => b.size - a.size);
  for (const { uri, size } of files.slice(0, 5)) say(`  ${formatBytes(size).padStart(8)}  ${uri}`);
  if (files.length > 5) say(`            and ${files.length - 5} more`);
  // what could be taken for a message of the protocol never goes directly
  const largest = files.find(({ mimeType }) => !/json|event-stream/.test(mimeType));
  if (largest === undefined || largest.size < leastBytes)
    throw new Error(`${folder} has no file of ${formatBytes(leastBytes)}; name another folder`);
  return { ...largest, sha256: await digestOf(join(folder, largest.key)) };
}

async function showRedirect(file: DemoFile): Promise<Result> {
  const storage = await startStorageService(folder, file.key);
  try {
    const result = await show(file, { ...place, way: "redirect", storage });
    if (storage.countSignedUrls() === 0) throw new Error("the store saw no signed URL");
    say(`    the answer is 302 to a URL of the S3 store at ${storage.origin},`);
    say("    signed by the plugin (AWS4-HMAC-SHA256) and checked by the store");
    return result;
  } finally {
    await storage.close();
  }
}

async function showBreak(file: DemoFile): Promise<void> {
  const proxy = await createCuttingProxy();
  const cutBytes = Math.floor(file.size * 0.4);
  let resumedWith: string | undefined;
  proxy.cutAfter(cutBytes, () => {
    bar.clear();
    say(`  ${styleText("yellow", "✂")} the connection was cut after ${formatBytes(cutBytes)}`);
  });
  proxy.onRange = (range) => {
    resumedWith = range;
    bar.clear();
    say(`  ${styleText("yellow", "↻")} the client goes on with Range: ${range}`);
  };
  try {
    await show(file, { ...place, way: "direct", proxy });
    if (resumedWith === undefined) throw new Error("the download was not cut and resumed");
  } finally {
    proxy.close();
  }
}

/** What the server has beside the folder. */
async function showOthers(): Promise<void> {
  const { note, files, bytes, archive } = await fetchOthers(place);
  say(`  ${noteUri.padEnd(25)} lies in memory: ${note}`);
  say(
    `  ${reportUri.padEnd(25)} a generator writes a line for each file: ${files}, ${formatBytes(bytes)}`,
  );
  const made = archive
    ? `all of them, stored: ${formatBytes(archive.bytes)} in ${formatDuration(archive.durationMs)}`
    : "all of them; left out here, the disk could be full";
  say(`  ${archiveUri.padEnd(25)} ${made}`);
}

/** Runs a trial and says how it went. */
async function show(file: DemoFile, trial: Trial): Promise<Result> {
  const result = await runTrial(file, trial);
  const time = formatDuration(result.durationMs).padStart(6);
  const verdict = `${styleText("green", "✓")} SHA-256 is that of the file`;
  say(`  ${trial.way.padEnd(12)} ${time}  ${verdict}`);
  return result;
}

/** The servers kept one trail, one after the other. */
async function showTrail(): Promise<void> {
  heading("The audit trail, in which each line holds the hash of the one before it");
  const { records: lines, verdict, forgery } = await readAuditStory(trail);
  for (const line of lines) say(`  ${line}`);
  say(`  ${styleText("green", "✓")} ${verdict}`);
  say(`  ${styleText("yellow", "✗")} a copy in which one number is another one: ${forgery}`);
}

function showCosts(results: readonly Result[]): void {
  heading("What it costs: time, and peak memory with its growth for this file");
  say(formatResults(results));
}

function heading(text: string): void {
  say(`\n${styleText("bold", text)}`);
}

function say(text: string): void {
  process.stdout.write(`${text}\n`);
}
