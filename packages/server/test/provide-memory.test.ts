import { execFile } from "node:child_process";
import { promisify } from "node:util";
import { beforeAll, expect, inject, test } from "vitest";
import type { ProvidingCost } from "./provide-memory-process.ts";

const oneMiB = 1024 * 1024;
const most = 16 * oneMiB;
const size = process.env["SLUICE_DEEP"] ? 8 * 1024 * oneMiB : 64 * oneMiB;
let cost: ProvidingCost;

beforeAll(async () => {
  const program = inject("programs")["packages/server/test/provide-memory-process.ts"]!;
  const { stdout } = await promisify(execFile)(process.execPath, [program, `${size}`]);
  cost = JSON.parse(stdout) as ProvidingCost;
}, 1_200_000);

test("a body of many bytes takes the memory of a few chunks", () => {
  expect(cost.whole).toBeLessThan(most);
});

test("a part near the end takes no more, also where all before it is made again", () => {
  expect(cost.end).toBeLessThan(most);
});

test("the measure sees a provider that keeps what it made", () => {
  expect(cost.kept).toBeGreaterThan(most);
});
