// @module-tag slow
import { createHash } from "node:crypto";
import { createReadStream, existsSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { Client } from "@modelcontextprotocol/client";
import { StdioClientTransport } from "@modelcontextprotocol/client/stdio";
import { expect, inject, test } from "vitest";
import { makeFolders, stateIn } from "./filing.ts";

const main = inject("programs")["packages/cli/src/main.ts"]!;
const mib = 2 ** 20;
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
if (!isDeep) console.info("12 MiB only: 200 MiB run with SLUICE_DEEP");
const pieces = isDeep ? 3_200 : 192;
const piece = Buffer.alloc(65_535);
for (let at = 0; at < piece.length; at++) piece[at] = (at * 31) % 251;

/** A server over stdio that writes a blob of 64 KiB pieces as its client takes them. */
const source = `
const piece = Buffer.alloc(65_535);
for (let at = 0; at < piece.length; at++) piece[at] = (at * 31) % 251;
const text = piece.toString("base64");
const say = (m) => process.stdout.write(JSON.stringify({ jsonrpc: "2.0", ...m }) + "\\n");
const { once } = require("node:events");
async function large(id) {
  process.stdout.write('{"jsonrpc":"2.0","id":' + JSON.stringify(id) + ',"result":{"contents":[{"uri":"a:b","mimeType":"x/y","blob":"');
  for (let at = 0; at < ${pieces}; at++) if (!process.stdout.write(text)) await once(process.stdout, "drain");
  process.stdout.write('"}]}}\\n');
}
require("node:readline").createInterface({ input: process.stdin }).on("line", (line) => {
  const { id, method, params } = JSON.parse(line);
  if (method === "initialize") say({ id, result: { protocolVersion: params.protocolVersion,
    capabilities: { resources: {}, tools: {} }, serverInfo: { name: "l", version: "1" } } });
  else if (method === "resources/read") void large(id);
  else if (method === "tools/list") say({ id, result: { tools: [] } });
  else if (id !== undefined) say({ id, error: { code: -32601, message: "Method not found" } });
});`;

function memoryOf(pid: number, field: "VmRSS" | "VmHWM"): number {
  const status = readFileSync(`/proc/${pid}/status`, "utf8");
  return Number(new RegExp(`${field}:\\s+(\\d+) kB`).exec(status)?.[1]) * 1_024;
}

async function hashOf(path: string): Promise<string> {
  const hash = createHash("sha256");
  for await (const chunk of createReadStream(path)) hash.update(chunk as Buffer);
  return hash.digest("hex");
}

const whole = createHash("sha256");
for (let at = 0; at < pieces; at++) whole.update(piece);
const expected = whole.digest("hex");

test(`a blob of ${Math.round((pieces * piece.length) / mib)} MiB: the host sees under 2 KiB, and the file is whole`, async () => {
  const { save } = makeFolders();
  const args = [main, "bridge", "--save-to", save, "--", process.execPath, "-e", source];
  const transport = new StdioClientTransport({
    command: process.execPath,
    args,
    env: stateIn({ save }),
  });
  const client = new Client({ name: "host", version: "1" });
  await client.connect(transport);
  await client.listTools();
  const hasMemory = existsSync(`/proc/${transport.pid}/status`);
  if (!hasMemory) console.info("memory is not measured: there is no /proc");
  const idle = hasMemory ? memoryOf(transport.pid!, "VmRSS") : 0;

  const result = await client.readResource({ uri: "a:b" }, { timeout: 600_000 });
  expect(JSON.stringify(result).length).toBeLessThan(2_048);
  const [name] = readdirSync(join(save, "spooled"));
  expect(await hashOf(join(save, "spooled", name!))).toBe(expected);

  const saved = await client.callTool(
    { name: "save_resource", arguments: { uri: "a:b", path: "b.bin" } },
    { timeout: 600_000 },
  );
  expect(JSON.stringify(saved).length).toBeLessThan(2_048);
  expect(await hashOf(join(save, "b.bin"))).toBe(expected);

  const grown = hasMemory ? memoryOf(transport.pid!, "VmHWM") - idle : 0;
  console.info(`memory above idle: ${Math.round(grown / mib)} MiB`);
  expect(grown).toBeLessThan(64 * mib);
  await client.close();
});
