import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { expect, test } from "vitest";
import type { Provided, ProvidedInfo } from "../src/provide/provider.ts";
import { backendOf } from "./provide-fixture.ts";

const oneMiB = 1024 * 1024;
const most = 16 * oneMiB;
const size = process.env["SLUICE_DEEP"] ? 8 * 1024 * oneMiB : 128 * oneMiB;
const chunk = Buffer.alloc(64 * 1024, "x");

async function* generate(bytes: number): AsyncGenerator<Uint8Array> {
  for (let left = bytes; left > 0; left -= chunk.byteLength) yield chunk;
}

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes that are still held: how much of the process is garbage depends on the tests before this one. */
async function held(): Promise<number> {
  collect();
  // what buffers held is given back a turn later
  await turn();
  collect();
  const { heapUsed, external } = process.memoryUsage();
  return heapUsed + external;
}

/** How far the memory that is held grows while a body is read. */
async function growth(
  bytes: number,
  { start = 0, open = () => generate(bytes) }: { start?: number; open?: () => Provided } = {},
): Promise<number> {
  const describe = (): ProvidedInfo => ({ size: bytes, version: "1" });
  const backend = backendOf({ open, describe, rewind: true });
  const { body } = await backend.open("file", start > 0 ? { range: { start } } : {});
  const before = await held();
  let received = 0;
  let grown = 0;
  for await (const { byteLength } of body) {
    received += byteLength;
    if (received % (32 * oneMiB) === 0) grown = Math.max(grown, (await held()) - before);
  }
  expect(received).toBe(bytes - start);
  return grown;
}

test("a body of many bytes takes the memory of a few chunks", async () => {
  expect(await growth(size)).toBeLessThan(most);
});

test("a part near the end takes no more, also where all before it is made again", async () => {
  expect(await growth(size, { start: size - 64 * oneMiB })).toBeLessThan(most);
});

test("the measure sees a provider that keeps what it made", async () => {
  const kept: Uint8Array[] = [];
  async function* open(): AsyncGenerator<Uint8Array> {
    for await (const one of generate(64 * oneMiB)) {
      kept.push(Buffer.from(one));
      yield one;
    }
  }
  expect(await growth(64 * oneMiB, { open })).toBeGreaterThan(most);
  expect(kept.length).toBeGreaterThan(0);
});
