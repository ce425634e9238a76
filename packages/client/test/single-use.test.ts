// @module-tag slow
import { createHash } from "node:crypto";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatContentRange, parseRange } from "@sluice/core/internal";
import { expect, onTestFinished, test } from "vitest";
import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

const uri = "x://a/b.bin";
const content = Buffer.alloc(8 * 2 ** 20, "The quick brown fox ");
const sha256 = createHash("sha256").update(content).digest("hex");

test.each(["direct", "downloadUrl"] as const)(
  "a file whose URLs serve one request each is saved over eight connections: %s delivery",
  async (delivery) => {
    const directory = await mkdtemp(join(tmpdir(), "sluice-"));
    onTestFinished(() => rm(directory, { recursive: true }));
    let urls = 0;
    const used = new Set<string>();
    const server: RawServer = await startRawServer({
      stream(request, res) {
        const link = `${server.origin}/d/${++urls}`;
        if (delivery === "downloadUrl") return replyUrl(res, request, link);
        res.setHeader("link", `<${link}>; rel="stream"`);
        return send(undefined, res);
      },
      get(req, res) {
        const isUsed = used.has(req.url!);
        used.add(req.url!);
        if (isUsed) res.writeHead(404).end();
        else send(req.headers.range, res);
      },
    });
    await using _ = server;
    const stream = await streamResource(createRawClient(server.url, withStreaming()), uri, {
      prefer: [delivery],
      timeouts: { pauseScale: 0 },
    });
    const saved = await stream.saveTo(directory, { connections: 8 });
    expect(saved.sha256).toBe(sha256);
    expect(await readdir(directory)).toEqual(["b.bin"]);
    // each connection asks a few times and no more
    expect(urls).toBeLessThan(40);
  },
);

function send(asked: string | undefined, res: ServerResponse): void {
  const range = parseRange(asked, content.length);
  if (typeof range === "string") return void res.writeHead(416).end();
  const { start, end } = range ?? { start: 0, end: content.length };
  res.setHeader("mcp-resource-uri", uri);
  res.setHeader("etag", '"v1"');
  if (range) res.setHeader("content-range", formatContentRange({ range, size: content.length }));
  res.setHeader("content-length", end - start);
  res.writeHead(range ? 206 : 200);
  const step = (at: number): void => {
    if (res.destroyed) return;
    const to = Math.min(end, at + 65_536);
    if (to === end) return void res.end(content.subarray(at, to));
    res.write(content.subarray(at, to), () => setTimeout(step, 2, to));
  };
  step(start);
}
