// @module-tag slow
import { execFile } from "node:child_process";
import { mkdtempSync, rmSync, truncateSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, onTestFinished, test } from "vitest";
import type { ReadingCost } from "./reading-process.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const bytes = deep ? 2 ** 30 : 2 ** 27;
// Node 24 lets 64 MiB of read buffers lie about when a pipe is read
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * 2 ** 20;

async function read(largeBytes: number, ...mode: readonly string[]): Promise<ReadingCost> {
  const folder = mkdtempSync(join(tmpdir(), "sluice-stdio-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  for (const [name, size] of [
    ["small.bin", 2 ** 24],
    ["large.bin", largeBytes],
  ] as const) {
    writeFileSync(join(folder, name), "");
    truncateSync(join(folder, name), size);
  }
  const program = (name: string): string =>
    inject("programs")[`packages/transport-stdio/test/${name}-process.ts`]!;
  const args = [program("reading"), program("serving"), folder, ...mode];
  const { stdout } = await promisify(execFile)(process.execPath, args);
  return JSON.parse(stdout) as ReadingCost;
}

test(`${bytes} bytes grow neither end by more than what the collector leaves, and calls are answered in the middle`, async () => {
  const cost = await read(bytes);
  expect(cost.bytes).toBe(bytes);
  expect(Math.max(...cost.growth)).toBeLessThan(mostGrowth);
  expect(cost.calls).toHaveLength(8);
});

test("an end that keeps everything is found", async () => {
  const { growth } = await read(1.5 * mostGrowth, "keep");
  expect(growth[0]).toBeGreaterThan(mostGrowth);
});
