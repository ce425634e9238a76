import { expect, test } from "vitest";
import type { Provided } from "../src/provide/provider.ts";
import { backendOf } from "./provide-fixture.ts";

const oneMiB = 1024 * 1024;
const size = process.env["SLUICE_DEEP"] ? 8 * 1024 * oneMiB : 512 * oneMiB;
const chunk = Buffer.alloc(64 * 1024, "x");

async function* generate(bytes: number): AsyncGenerator<Uint8Array> {
  for (let left = bytes; left > 0; left -= chunk.byteLength) yield chunk;
}

/** How far the memory of the process grows while a body is read, beyond what it is after the first 64 MiB. */
async function growth(given: () => Provided, range?: { start: number }): Promise<number> {
  const backend = backendOf({
    open: given,
    describe: () => ({ size, version: "1" }),
    rewind: true,
  });
  const { body } = await backend.open("file", range ? { range } : {});
  let received = 0;
  let before = 0;
  let most = 0;
  for await (const { byteLength } of body) {
    received += byteLength;
    if (received % oneMiB > 0) continue;
    // a socket would give the collector its turns
    await new Promise((resolve) => setImmediate(resolve));
    const { rss } = process.memoryUsage();
    if (received <= 64 * oneMiB) before = rss;
    else most = Math.max(most, rss - before);
  }
  expect(received).toBe(size - (range?.start ?? 0));
  return most;
}

test("a body of many bytes takes the memory of a few chunks", async () => {
  expect(await growth(() => generate(size))).toBeLessThan(48 * oneMiB);
});

test("a part near the end takes no more, also where all before it is made again", async () => {
  expect(await growth(() => generate(size), { start: size - 128 * oneMiB })).toBeLessThan(
    48 * oneMiB,
  );
});
