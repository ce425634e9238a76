// @module-tag slow
import { fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { sparse } from "./bucket.ts";
import type { MemoryOrder, MemoryReport } from "./memory-process.ts";
import { type S3StandIn, startS3StandIn } from "./stand-in/stand-in.ts";

const deep = process.env["SLUICE_DEEP"] !== undefined;
const mebibyte = 1024 * 1024;
// newer releases of Node let more garbage gather before they collect it
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * mebibyte;
// to keep this much shows, as the twin proves
const bytesKept = mostGrowth + 48 * mebibyte;
const bytesMoved = deep ? 1024 * mebibyte : bytesKept;
const timeout = deep ? 300_000 : 60_000;

let standIn: S3StandIn;
beforeAll(async () => {
  standIn = await startS3StandIn({ keepUploads: false });
  standIn.put("warm", sparse(32 * mebibyte));
  standIn.put("large", sparse(bytesMoved));
  standIn.put("medium", sparse(bytesKept));
});
afterAll(() => standIn[Symbol.asyncDispose]());

async function run(work: MemoryOrder["work"], key: string, bytes: number): Promise<MemoryReport> {
  const { bucket, endpoint, credentials } = standIn;
  const order: MemoryOrder = { bucket, endpoint, credentials, work, key, bytes, warmUp: "warm" };
  const program = inject("programs")["packages/storage-s3/test/memory-process.ts"]!;
  const child = fork(program, [JSON.stringify(order)], { execArgv: [], stdio: "ignore" });
  const ended = once(child, "exit");
  const [report] = (await Promise.race([
    once(child, "message"),
    ended.then(([code]) => Promise.reject(new Error(`it ended with ${String(code)}`))),
  ])) as [MemoryReport];
  await ended;
  const grown = (report.growth / mebibyte).toFixed(1);
  console.info(`${work}, ${report.bytes / mebibyte} MiB: +${grown} MiB`);
  return report;
}

describe("memory does not depend on the size of an object", () => {
  test("for a read", { timeout }, async () => {
    const { bytes, growth } = await run("read", "large", bytesMoved);
    expect(bytes).toBe(bytesMoved);
    expect(growth).toBeLessThanOrEqual(mostGrowth);
  });

  test("for a write in parts", { timeout }, async () => {
    const { bytes, growth } = await run("write", "written", bytesMoved);
    expect(bytes).toBe(bytesMoved);
    expect(growth).toBeLessThanOrEqual(mostGrowth);
  });

  test("negative control: a reader that keeps the bytes is detected", { timeout }, async () => {
    const { growth } = await run("keep", "medium", bytesKept);
    expect(growth).toBeGreaterThan(mostGrowth);
  });
});
