import { createHash } from "node:crypto";
import { expect, test } from "vitest";
import { createFileHash, createThreadHash } from "../src/checks/file-hash.ts";
import { noise } from "./upload-server.ts";

const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

test("a hash in a thread is the hash, whatever the pieces, and of several files at once", async () => {
  const files = [0, 1, 262_143, 262_144, 262_145, 3_000_000].map((size) => noise(size));
  const digests = await Promise.all(
    files.map(async (file, index) => {
      const hash = createThreadHash()!;
      const step = [70_001, 1_000_000, 5][index % 3]! + file.length / 50;
      for (let at = 0; at < file.length; at += step)
        await hash.update(file.subarray(Math.ceil(at), Math.ceil(at + step)));
      return hash.digest();
    }),
  );
  expect(digests).toEqual(files.map(sha256));
});

test("one that is given up disturbs no other", async () => {
  const file = noise(2_000_000);
  const [stopped, other] = [createFileHash(20_000_000), createFileHash(20_000_000)];
  await stopped.update(file);
  stopped.stop();
  stopped.stop();
  await other.update(file);
  expect(await other.digest()).toBe(sha256(file));
});

test("files share a few blocks of memory: one that is slow keeps none from the others", async () => {
  const piece = noise(100_000);
  const slow = Array.from({ length: 40 }, () => createThreadHash()!);
  for (const hash of slow) await hash.update(piece);
  const fast = createThreadHash()!;
  const file = noise(9_000_000);
  await fast.update(file);
  expect(await fast.digest()).toBe(sha256(file));
  for (const hash of slow) {
    hash.pause();
    await hash.update(piece);
  }
  const digests = await Promise.all(slow.map((hash) => hash.digest()));
  expect(new Set(digests)).toEqual(new Set([sha256(Buffer.concat([piece, piece]))]));
});

test("one that is given up while it waits for memory disturbs no other", async () => {
  const file = noise(12_000_000);
  const [stopped, other] = [createThreadHash()!, createThreadHash()!];
  const updating = stopped.update(file);
  stopped.stop();
  await updating;
  await other.update(file);
  expect(await other.digest()).toBe(sha256(file));
});
