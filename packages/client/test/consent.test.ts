import { SluiceError, streamResource, type TransferScale } from "@sluice/client";
import { formatScale, withStreaming } from "@sluice/client/internal";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import type { RawServer } from "./raw-server.ts";

const uri = "files://demo/big.iso";
let folder: string;
let server: RawServer;
let served: ServedFile;
beforeEach(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-"));
  served = { content: Buffer.alloc(200_000, "x") };
  server = await startFileServer(served);
});
afterEach(async () => {
  await server[Symbol.asyncDispose]();
  await rm(folder, { recursive: true });
});

const open = (consent: (scale: TransferScale) => boolean | Promise<boolean>, more: object = {}) =>
  streamResource(createRawClient(server.url, withStreaming()), uri, { consent, ...more });

test("a caller that saves is told how much goes where and comes from where, before anything is on disk [ARTICLE/10.2/consent]", async () => {
  const asked: TransferScale[] = [];
  const seen: string[][] = [];
  const stream = await open(async (scale) => {
    asked.push(scale);
    seen.push(await readdir(folder));
    return true;
  });
  expect(asked).toEqual([]);
  await stream.saveTo(`${folder}/`);
  const { host } = new URL(server.url);
  expect(asked).toEqual([
    { files: 1, bytes: 200_000, unknownSizes: 0, from: [host], to: `${folder}/` },
  ]);
  expect(seen).toEqual([[]]);
  expect(await readdir(folder)).toEqual(["big.iso"]);
});

test.each([false, undefined, "yes", 1])(
  "anything but a clear yes declines: %s leaves nothing on disk and gives no byte [ARTICLE/10.2/consent]",
  async (answer) => {
    const declined = { code: "permission_denied" };
    const consent = (): boolean => answer as boolean;
    await expect((await open(consent)).saveTo(`${folder}/`)).rejects.toMatchObject(declined);
    expect(await readdir(folder)).toEqual([]);
    const reader = (await open(consent)).body.getReader();
    await expect(reader.read()).rejects.toMatchObject(declined);
  },
);

test("a hook that throws declines with what it threw", async () => {
  const reason = new SluiceError("internal", "dialog: gone");
  const stream = await open(() => Promise.reject(reason));
  await expect(stream.saveTo(`${folder}/`)).rejects.toBe(reason);
});

test("reading asks once, at the first byte, and says that the bytes go nowhere else", async () => {
  const asked: TransferScale[] = [];
  const stream = await open((scale) => asked.push(scale) > 0);
  expect(asked).toEqual([]);
  for await (const _ of stream.body);
  expect(asked).toHaveLength(1);
  expect(asked[0]).not.toHaveProperty("to");
});

test("an abort ends the wait for an answer", async () => {
  const stop = new AbortController();
  const stream = await open(() => new Promise<boolean>(() => {}), { signal: stop.signal });
  const saving = stream.saveTo(`${folder}/`);
  const reason = new Error("the user left");
  stop.abort(reason);
  await expect(saving).rejects.toBe(reason);
});

test("consent to a size does not cover a larger version", async () => {
  served.breakAfter = 50_000;
  served.before = () => {
    if (served.breakAfter === undefined) return false;
    // the second request meets another file
    served.before = () => {
      served.content = Buffer.alloc(900_000, "y");
      served.etag = '"v2"';
      served.breakAfter = undefined;
      return false;
    };
    return false;
  };
  const stream = await open(() => true, { timeouts: { pauseScale: 0 } });
  await expect(stream.saveTo(`${folder}/`)).rejects.toMatchObject({ code: "too_large" });
  expect(await readdir(folder)).toEqual([]);
});

test("a scale reads like a sentence", () => {
  const scale = { files: 3, bytes: 41_234_567_890, unknownSizes: 0, from: ["example.com"] };
  expect(formatScale({ ...scale, to: "~/Downloads" })).toBe(
    "3 files, 41.2 GB, to ~/Downloads, from example.com",
  );
  expect(formatScale({ ...scale, files: 1, bytes: 999 })).toBe("1 file, 999 B, from example.com");
  expect(formatScale({ ...scale, bytes: 999_960, from: ["a", "b"] })).toBe(
    "3 files, 1.0 MB, from a and b",
  );
  expect(formatScale({ ...scale, unknownSizes: 1 })).toBe(
    "3 files, 41.2 GB and 1 of unknown size, from example.com",
  );
  expect(formatScale({ files: 2, bytes: 0, unknownSizes: 2, from: [] })).toBe(
    "2 files, size unknown",
  );
  expect(formatScale({ ...scale, bytes: 2048 }, (bytes) => `${bytes / 1024} KiB`)).toContain(
    "2 KiB",
  );
});
