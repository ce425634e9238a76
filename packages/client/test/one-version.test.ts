import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError } from "@sluice/core";
import { formatContentRange, parseRange } from "@sluice/core/internal";
import { afterEach, beforeEach, expect, test } from "vitest";
import { streamResource, type SaveOptions } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
});
afterEach(() => rm(directory, { recursive: true, force: true }));

const uri = "x://a/b.bin";
const timeouts = { pauseScale: 0 };

interface Version {
  readonly bytes: Buffer;
  readonly etag: string;
}

/** How a server with a changed object answers a request for a part of the old version. */
const manners = {
  "the new version whole": {},
  "the new version whole and chunked": { isChunked: true },
  "a part of the new version": { ignoresIfRange: true },
  "a part without a tag": { ignoresIfRange: true, tag: () => undefined },
  "a part with a weak tag": { ignoresIfRange: true, tag: (tag: string) => `W/${tag}` },
} as const satisfies Record<string, Manner>;

interface Manner {
  readonly ignoresIfRange?: boolean;
  readonly isChunked?: boolean;
  readonly tag?: (tag: string) => string | undefined;
}

interface Change {
  readonly before: Version;
  readonly after: Version;
  readonly manner: Manner;
  /** The number of the response that breaks, from 0 on. */
  readonly breakAt: number;
  /** The bytes of its body that arrive. */
  readonly breakAfter: number;
}

/** A server whose object changes at the moment at which one of its responses breaks. */
async function startChangingServer({ before, after, manner, ...at }: Change): Promise<RawServer> {
  let version = before;
  let responses = 0;
  function send(req: IncomingMessage, res: ServerResponse): void {
    const { bytes, etag } = version;
    const isNew = version === after;
    const {
      ignoresIfRange = false,
      isChunked = false,
      tag = (text: string) => text,
    } = isNew ? manner : {};
    const isAsked = ignoresIfRange || (req.headers["if-range"] ?? etag) === etag;
    const found = isAsked ? parseRange(req.headers.range, bytes.length) : undefined;
    if (found === "unsatisfiable") return void res.writeHead(416).end();
    const range = found ?? { start: 0, end: bytes.length };
    const body = bytes.subarray(range.start, range.end);
    const sentTag = found ? tag(etag) : etag;
    res.setHeader("mcp-resource-uri", uri);
    if (sentTag !== undefined) res.setHeader("etag", sentTag);
    if (found) res.setHeader("content-range", formatContentRange({ range, size: bytes.length }));
    if (!isChunked) res.setHeader("content-length", body.length);
    res.writeHead(found ? 206 : 200);
    if (responses++ !== at.breakAt) return void res.end(body);
    version = after;
    res.write(body.subarray(0, at.breakAfter), () => res.socket?.end());
    if (at.breakAfter === 0) res.flushHeaders();
  }
  const server: RawServer = await startRawServer({
    stream: (request, res) => replyUrl(res, request, `${server.origin}/d`),
    get: send,
  });
  return server;
}

const ways = {
  "a stream": undefined,
  "one connection": {},
  "two connections": { connections: 2 },
  "sixteen connections": { connections: 16 },
  "two connections that can be resumed": { connections: 2, resume: true },
} as const satisfies Record<string, SaveOptions | undefined>;

async function receive(server: RawServer, options: SaveOptions | undefined): Promise<Buffer> {
  const client = createRawClient(server.url, withStreaming());
  const stream = await streamResource(client, uri, { timeouts });
  if (options) return readFile((await stream.saveTo(directory, options)).path);
  const chunks: Uint8Array[] = [];
  for await (const chunk of stream.body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

const versions = (sizes: readonly [number, number]): [Version, Version] => [
  { bytes: Buffer.alloc(sizes[0], "A"), etag: '"v1"' },
  { bytes: Buffer.alloc(sizes[1], "B"), etag: '"v2"' },
];
const large = 2_500_000;

// few files for the fast run: each is synced to the disk
const quick: readonly string[] = ["a stream", "two connections"];

const changes = {
  small: [
    { sizes: [100, 5_000], breakAt: 0, breakAfter: 0 },
    { sizes: [100, 5_000], breakAt: 0, breakAfter: 1 },
    { sizes: [5_000, 100], breakAt: 0, breakAfter: 0 },
    { sizes: [5_000, 5_000], breakAt: 0, breakAfter: 0 },
  ],
  large: [
    { sizes: [large, large + 1], breakAt: 0, breakAfter: 0 },
    { sizes: [large, large], breakAt: 0, breakAfter: 70_000 },
    { sizes: [large, large], breakAt: 1, breakAfter: 0 },
    { sizes: [large, 100], breakAt: 1, breakAfter: 70_000 },
  ],
} as const;

async function mixedVersions(ofSize: keyof typeof changes): Promise<string[]> {
  const mixed: string[] = [];
  const entries = Object.entries(ways);
  const chosen = ofSize === "small" ? entries.filter(([way]) => quick.includes(way)) : entries;
  const cases = chosen.flatMap(([way, options]) =>
    Object.entries(manners).flatMap(([answer, manner]) =>
      changes[ofSize].map((change) => ({ way, options, answer, manner, ...change })),
    ),
  );
  for (const { way, options, answer, manner, sizes, breakAt, breakAfter } of cases) {
    const [before, after] = versions(sizes);
    await using server = await startChangingServer({ before, after, manner, breakAt, breakAfter });
    const got = await receive(server, options).catch((error: unknown) => error);
    const isWhole = Buffer.isBuffer(got) && (got.equals(before.bytes) || got.equals(after.bytes));
    // bytes that a reader has cannot be taken back; a file can be fetched again
    const mayFail = !options && SluiceError.is(got) && got.code === "precondition_failed";
    const outcome = Buffer.isBuffer(got) ? `${got.length} bytes` : String(got);
    if (!isWhole && !mayFail)
      mixed.push(`${way}, ${answer}, ${sizes.join(" to ")}, ${breakAt}:${breakAfter}: ${outcome}`);
    for (const name of await readdir(directory)) await rm(join(directory, name));
  }
  return mixed;
}

test("a response that breaks before its first byte is never followed by a part of another version", async () => {
  expect(await mixedVersions("small")).toEqual([]);
});

test("more bytes than the size that was promised are never cut off and saved, over any way", async () => {
  const saved: string[] = [];
  for (const [way, options] of Object.entries(ways))
    for (const size of [1, 5_000, 1_200_000]) {
      await using server: RawServer = await startRawServer({
        stream: (request, res) => replyUrl(res, request, `${server.origin}/d`, { size }),
        get(_req, res) {
          // chunked: no header tells the length of what has replaced the resource
          res.writeHead(200, { "mcp-resource-uri": uri, etag: '"v2"' });
          res.end(Buffer.alloc(size + 1, "B"));
        },
      });
      const got = await receive(server, options).catch((error: unknown) => error);
      if (!SluiceError.is(got)) saved.push(`${way}, ${size}`);
      expect(await readdir(directory)).toEqual([]);
    }
  expect(saved).toEqual([]);
});

test(
  "shares that break while the object changes become one whole download",
  { tags: "slow" },
  async () => {
    expect(await mixedVersions("large")).toEqual([]);
  },
);
