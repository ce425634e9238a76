// @module-tag slow
import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { afterAll, beforeAll, expect, inject, test } from "vitest";
import { type GraphEmulator, startGraphEmulator } from "@sluice/graph-emulator";
import type { TransferOrder, TransferReport } from "./transfer-process.ts";

const mib = 2 ** 20;
const isDeep = process.env["SLUICE_DEEP"] !== undefined;
// newer releases of Node let more garbage gather before they collect it
const mostGrowth = (process.versions.node.startsWith("20.") ? 48 : 96) * mib;
const size = isDeep ? 1024 * mib : mostGrowth + 48 * mib;
// to keep this much shows, even in a process that has grown before
const keptSize = mostGrowth + 144 * mib;

const read = (start: number, end: number): Uint8Array => Buffer.alloc(end - start);

let emulator: GraphEmulator;
let child: ChildProcess;

beforeAll(async () => {
  emulator = await startGraphEmulator({ discardsUploads: true });
  emulator.drive.put("large.bin", { size, read });
  emulator.drive.put("medium.bin", { size: keptSize, read });
  emulator.drive.put("warm.bin", { size: 32 * mib, read });
  child = fork(inject("programs")["packages/storage-graph/test/transfer-process.ts"]!, {
    execArgv: [],
  });
  await once(child, "message");
  // code that is compiled and buffers that are pooled belong to the idle state
  await transfer("read", "warm.bin", 32 * mib);
  await transfer("write", "warm.bin", 32 * mib);
}, 60_000);

afterAll(async () => {
  const exited = once(child, "exit");
  child.disconnect();
  await exited;
  await emulator[Symbol.asyncDispose]();
});

async function transfer(
  use: TransferOrder["use"],
  key: string,
  bytes: number,
): Promise<TransferReport> {
  const { token } = await emulator.credential.getToken();
  const order: TransferOrder = {
    baseUrl: emulator.origins.graph,
    driveId: emulator.drive.id,
    token,
    use,
    key,
    size: bytes,
  };
  const answered = once(child, "message") as Promise<[TransferReport]>;
  child.send(order);
  const [report] = await answered;
  const rate = bytes / mib / (report.milliseconds / 1000);
  process.stdout.write(
    `graph: ${use} ${bytes / mib} MiB: +${(report.growth / mib).toFixed(1)} MiB, ${rate.toFixed(0)} MiB/s\n`,
  );
  return report;
}

test.each(["read", "write"] as const)(
  `a %s of ${size / mib} MiB leaves memory as it was`,
  async (use) => {
    const { bytes, growth } = await transfer(use, use === "read" ? "large.bin" : "new.bin", size);
    expect(bytes).toBe(size);
    expect(growth).toBeLessThanOrEqual(mostGrowth);
  },
  120_000,
);

test("negative control: a reader that keeps the bytes is detected", async () => {
  const { growth } = await transfer("keep", "medium.bin", keptSize);
  expect(growth).toBeGreaterThan(mostGrowth);
}, 60_000);
