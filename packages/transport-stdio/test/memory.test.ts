import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import type { ReadingCost } from "./reading-process.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const bytes = deep ? 2 ** 30 : 2 ** 27;
// Node 24 lets 64 MiB of read buffers lie about when a pipe is read
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * 2 ** 20;
let folder: string;

beforeAll(() => {
  folder = mkdtempSync(join(tmpdir(), "sluice-stdio-"));
  for (const [name, size] of [
    ["small.bin", 2 ** 24],
    ["large.bin", bytes],
  ] as const) {
    writeFileSync(join(folder, name), "");
    truncateSync(join(folder, name), size);
  }
});
afterAll(() => rmSync(folder, { recursive: true }));

async function read(...mode: readonly string[]): Promise<ReadingCost> {
  const program = (name: string): string =>
    inject("programs")[`packages/transport-stdio/test/${name}-process.ts`]!;
  const args = [program("reading"), program("serving"), folder, ...mode];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as ReadingCost;
}

test(`${bytes} bytes grow neither end by more than what the collector leaves, and calls are answered in the middle`, async () => {
  const cost = await read();
  expect(cost.bytes).toBe(bytes);
  expect(Math.max(...cost.growth)).toBeLessThan(mostGrowth);
  expect(cost.calls).toHaveLength(8);
});

test("an end that keeps everything is found", async () => {
  const { growth } = await read("keep");
  expect(growth[0]).toBeGreaterThan(mostGrowth);
});
