import { setImmediate as turn } from "node:timers/promises";
import { expect, test } from "vitest";
import type { Provided, ProvidedInfo } from "../src/provide/provider.ts";
import { backendOf } from "./provide-fixture.ts";

const oneMiB = 1024 * 1024;
const most = 48 * oneMiB;
const size = process.env["SLUICE_DEEP"] ? 8 * 1024 * oneMiB : 512 * oneMiB;
const chunk = Buffer.alloc(64 * 1024, "x");

async function* generate(bytes: number): AsyncGenerator<Uint8Array> {
  for (let left = bytes; left > 0; left -= chunk.byteLength) yield chunk;
}

/** How far the memory of the process grows while a body is read, beyond what it is after the first 64 MiB. */
async function growth(
  bytes: number,
  { start = 0, open = () => generate(bytes) }: { start?: number; open?: () => Provided } = {},
): Promise<number> {
  const describe = (): ProvidedInfo => ({ size: bytes, version: "1" });
  const backend = backendOf({ open, describe, rewind: true });
  const { body } = await backend.open("file", start > 0 ? { range: { start } } : {});
  let received = 0;
  let before = 0;
  let grown = 0;
  for await (const { byteLength } of body) {
    received += byteLength;
    if (received % oneMiB > 0) continue;
    // a socket would give the collector its turns
    await turn();
    const { rss } = process.memoryUsage();
    if (received <= 64 * oneMiB) before = rss;
    else grown = Math.max(grown, rss - before);
  }
  expect(received).toBe(bytes - start);
  return grown;
}

test("a body of many bytes takes the memory of a few chunks", async () => {
  expect(await growth(size)).toBeLessThan(most);
});

test("a part near the end takes no more, also where all before it is made again", async () => {
  expect(await growth(size, { start: size - 128 * oneMiB })).toBeLessThan(most);
});

test("the measure sees a provider that keeps what it made", async () => {
  const kept: Uint8Array[] = [];
  async function* open(): AsyncGenerator<Uint8Array> {
    for await (const one of generate(192 * oneMiB)) {
      kept.push(Buffer.from(one));
      yield one;
    }
  }
  expect(await growth(192 * oneMiB, { open })).toBeGreaterThan(most);
  expect(kept.length).toBeGreaterThan(0);
});
