// @module-tag slow
import { spawn } from "node:child_process";
import { once } from "node:events";
import { mkdir, mkdtemp, readdir, readFile, rm, stat, writeFile } from "node:fs/promises";
import { request } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { performance } from "node:perf_hooks";
import { text } from "node:stream/consumers";
import { setTimeout as sleep } from "node:timers/promises";
import { verifyAuditFiles } from "@sluice/server/node";
import { expect, inject, onTestFinished, test } from "vitest";
import { startProgram } from "../bed/program.ts";
import type { FloodSettings } from "../bed/programs/flood.ts";

const forged = process.env["SLUICE_DEEP"] ? 100_000 : 300;
const connections = 64;

/** A running `sluice serve` with a trail, uploads and one file. */
async function startServe() {
  const root = await mkdtemp(join(tmpdir(), "sluice-flood-"));
  const [files, uploads, trail] = ["files", "uploads", "trail"].map((name) => join(root, name));
  for (const folder of [files!, uploads!, trail!]) await mkdir(folder);
  await writeFile(join(files!, "a.txt"), "0123456789");
  const audit = join(trail!, "audit.log");
  const main = inject("programs")["packages/cli/src/main.ts"]!;
  const options = ["serve", files!, "--port", "0", "--audit", audit, "--uploads", uploads!];
  const child = spawn(process.execPath, [main, ...options], { stdio: ["ignore", "pipe", "pipe"] });
  let log = 0;
  child.stderr.on("data", (chunk: Buffer) => void (log += chunk.length));
  const exited = once(child, "exit");
  onTestFinished(async () => {
    child.kill("SIGKILL");
    await exited;
    await rm(root, { recursive: true });
  });
  const [line] = (await once(child.stdout, "data")) as [Buffer];
  return {
    url: line.toString().trim(),
    audit,
    trail: trail!,
    logBytes: () => log,
    async end() {
      child.kill("SIGTERM");
      await exited;
    },
  };
}

const uri = "files://local/a.txt";
const _meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientInfo": { name: "reader", version: "1" },
  "io.modelcontextprotocol/clientCapabilities": {},
};
const body = JSON.stringify({
  jsonrpc: "2.0",
  id: 1,
  method: "resources/read",
  params: { uri, _meta },
});
const headers = {
  accept: "application/json, text/event-stream",
  "content-type": "application/json",
  "mcp-protocol-version": "2026-07-28",
  "mcp-method": "resources/read",
  "mcp-name": uri,
};

/** Reads the file over a connection of its own. */
function read(url: string): Promise<string> {
  return new Promise((resolve, reject) => {
    request(url, { method: "POST", agent: false, headers }, (response) => {
      text(response).then((answer) => resolve(`${response.statusCode} ${answer}`), reject);
    })
      .on("error", reject)
      .end(body);
  });
}

/** Reads so often, or until `stop`, one time after the other. Gives what each took, in milliseconds. */
async function work(url: string, most: number, stop?: AbortSignal): Promise<number[]> {
  const times: number[] = [];
  const isOver = (): boolean => stop?.aborted === true;
  while (times.length < most && !isOver()) {
    const from = performance.now();
    expect(await read(url)).toMatch(/^200 [^]*"result"/);
    times.push(performance.now() - from);
    // what this client writes into the trail is not what is measured
    await sleep(30);
  }
  return times;
}

function spread(times: readonly number[]): string {
  const sorted = times.toSorted((a, b) => a - b);
  const at = (share: number): string => sorted[Math.floor((sorted.length - 1) * share)]!.toFixed(2);
  return `p50 ${at(0.5)} ms, p99 ${at(0.99)} ms (${times.length} reads)`;
}

/** Rounds of quiet and flood in turn, so that what else the machine does is the same for both. */
const rounds = process.env["SLUICE_DEEP"] ? 10 : 1;

test("made-up download and upload URLs cost the disk next to nothing, and another client reads on meanwhile", async () => {
  const server = await startServe();
  // code that is compiled belongs to the quiet state
  const warmUps = process.env["SLUICE_DEEP"] ? 50 : 10;
  await work(server.url, warmUps);
  let honest = warmUps;
  for (const [name, method] of [
    ["streams", "GET"],
    ["uploads", "POST"],
  ] as const) {
    const prefix = `${server.url}/${name}/`;
    const settings: FloodSettings = { prefix, method, count: forged / rounds, connections };
    await using flood = await startProgram<string>("flood", settings);
    const quiet: number[] = [];
    const flooded: number[] = [];
    for (let round = 0; round < rounds; round++) {
      quiet.push(...(await work(server.url, 10 + forged / 1_500)));
      const over = new AbortController();
      const answered = flood.ask<Record<string, number>>("begin").finally(() => over.abort());
      flooded.push(...(await work(server.url, Infinity, over.signal)));
      const { 404: unknown = 0, 429: limited = 0 } = await answered;
      expect(unknown + limited).toBe(settings.count);
    }
    honest += quiet.length + flooded.length;
    console.log(
      `${name}: ${forged} forged over ${connections} connections; another client, without: ${spread(quiet)}; with: ${spread(flooded)}`,
    );
  }
  await server.end();

  const lines = (await readFile(server.audit, "utf8")).trimEnd().split("\n");
  const records = lines.map((line) => JSON.parse(line) as Record<string, unknown>);
  const refused = records.filter(({ outcome }) => outcome === "denied");
  expect(refused.reduce((sum, { count = 1 }) => sum + Number(count), 0)).toBe(2 * forged);
  expect(lines.length - refused.length).toBeLessThan(2 * honest + 10);
  const names = await readdir(server.trail);
  const sizes = await Promise.all(
    names.map(async (name) => (await stat(join(server.trail, name))).size),
  );
  const disk = sizes.reduce((sum, size) => sum + size, 0);
  const refusedBytes = refused.reduce((sum, record) => sum + JSON.stringify(record).length + 1, 0);
  console.log(
    `on disk: ${disk} bytes, of which refusals ${refusedBytes} in ${refused.length} lines; log: ${server.logBytes()} bytes`,
  );
  expect(disk).toBeLessThan(10 * 2 ** 20);
  expect(refusedBytes).toBeLessThan(64 * 1_024 + forged / 10);
  expect((await verifyAuditFiles([server.audit])).findings).toEqual([]);
});
