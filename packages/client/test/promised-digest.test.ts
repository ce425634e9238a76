import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

const good = Buffer.alloc(2 ** 18, "The quick brown fox ");
const wrong = Buffer.alloc(2 ** 18, "The lazy dog ");
const half = good.length / 2;

function digestOf(bytes: Buffer): string {
  return `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`;
}

/** What a server says with the second half of a file, or with the whole of another one. */
interface Rest {
  readonly status: 200 | 206;
  readonly etag: string;
  readonly bytes: Buffer;
  readonly digest?: string;
}

/** Breaks off after half of a file with a promised digest, and goes on with `rest`. */
async function startChanging({ status, etag, bytes, digest }: Rest): Promise<RawServer> {
  let answers = 0;
  const range = `bytes ${half}-${good.length - 1}/${good.length}`;
  const server = await startRawServer({
    stream: (request, res) => replyUrl(res, request, `${server.origin}/d`),
    get(_req, res) {
      res.setHeader("mcp-resource-uri", "x://a");
      if (answers++ === 0) {
        res.setHeader("repr-digest", digestOf(good));
        res.writeHead(200, { etag: '"v1"', "content-length": good.length });
        return void res.write(good.subarray(0, half), () => res.destroy());
      }
      if (digest !== undefined) res.setHeader("repr-digest", digest);
      if (status === 206) res.setHeader("content-range", range);
      return void res.writeHead(status, { etag, "content-length": bytes.length }).end(bytes);
    },
  });
  return server;
}

async function createFolder(): Promise<string> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  return folder;
}

function open(server: RawServer, requireDigest = false): Promise<ResourceStream> {
  const options = { requireDigest, timeouts: { pauseScale: 0 } };
  return streamResource(createRawClient(server.url, withStreaming()), "x://a", options);
}

test("a promised digest holds for a save whose rest comes without one", async () => {
  const folder = await createFolder();
  const rest = { status: 206, etag: '"v1"' } as const;
  await using liar = await startChanging({ ...rest, bytes: wrong.subarray(half) });
  await expect((await open(liar)).saveTo(folder)).rejects.toMatchObject({ code: "corrupt" });
  expect(await readdir(folder)).toEqual([]);
  await using honest = await startChanging({ ...rest, bytes: good.subarray(half) });
  const saved = await (await open(honest)).saveTo(folder);
  expect(saved.verified).toBe("digest");
  expect((await readFile(saved.path)).equals(good)).toBe(true);
});

test("a digest that changes within one version is corrupt, also where the bytes fit it", async () => {
  const folder = await createFolder();
  const bytes = wrong.subarray(half);
  const digest = digestOf(Buffer.concat([good.subarray(0, half), bytes]));
  await using server = await startChanging({ status: 206, etag: '"v1"', bytes, digest });
  await expect((await open(server)).saveTo(folder)).rejects.toMatchObject({ code: "corrupt" });
  expect(await readdir(folder)).toEqual([]);
});

test("requireDigest holds for a version that comes meanwhile", async () => {
  const folder = await createFolder();
  const next = { status: 200, etag: '"v2"', bytes: wrong } as const;
  await using silent = await startChanging(next);
  const stream = await open(silent, true);
  await expect(stream.saveTo(folder)).rejects.toMatchObject({ code: "unsupported" });
  expect(await readdir(folder)).toEqual([]);
  await using honest = await startChanging({ ...next, digest: digestOf(wrong) });
  const saved = await (await open(honest, true)).saveTo(folder);
  expect((await readFile(saved.path)).equals(wrong)).toBe(true);
});
