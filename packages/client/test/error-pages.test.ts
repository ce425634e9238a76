import { createHash } from "node:crypto";
import { mkdtemp, readdir, readFile, rm } from "node:fs/promises";
import type { IncomingMessage, ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { formatContentRange, formatReprDigest, parseRange } from "@sluice/core/internal";
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

const uri = "x://a/b.pdf";
const content = Buffer.alloc(100_000, "%PDF ");
const tag = { etag: '"v1"' };
const html = Buffer.from("<html>An error occurred. Try again later.</html>\n");
const json = Buffer.from(JSON.stringify({ error: { code: "generalException", message: "Busy" } }));
const xml = Buffer.from("<?xml version='1.0'?><Error><Code>InternalError</Code></Error>");
const sha256 = createHash("sha256").update(content).digest("hex");

/** A successful response that is not the file. */
interface Page {
  readonly body: Buffer;
  readonly headers?: Readonly<Record<string, string>>;
  readonly isChunked?: boolean;
}

/** What the grant says of the file. */
interface Grant {
  readonly mimeType?: string;
  readonly size?: number;
  readonly etag?: string;
  readonly digest?: string;
}

const ofType = (type: string): Record<string, string> => ({ "content-type": type });
const pdf = { mimeType: "application/pdf" };

/** Pages that contradict the grant before any byte of theirs is read. */
const pages: Readonly<Record<string, readonly [Grant, Page]>> = {
  "HTML without a length": [pdf, { body: html, headers: ofType("text/html"), isChunked: true }],
  "HTML with a charset": [pdf, { body: html, headers: ofType("Text/HTML; charset=utf-8") }],
  "JSON with a length": [pdf, { body: json, headers: ofType("application/json") }],
  "a problem in JSON": [pdf, { body: json, headers: ofType("application/problem+json") }],
  XML: [pdf, { body: xml, headers: ofType("application/xml") }],
  "HTML of a JSON file": [
    { mimeType: "application/geo+json" },
    { body: html, headers: ofType("text/html") },
  ],
  "JSON of an HTML file": [
    { mimeType: "text/html; charset=utf-8" },
    { body: json, headers: ofType("application/json") },
  ],
  "another length": [{ size: content.length }, { body: json }],
  "another length, of a type that says nothing": [
    { size: content.length, mimeType: "application/octet-stream" },
    { body: html, headers: ofType("text/html") },
  ],
  "another tag": [tag, { body: html, headers: { etag: '"page"' } }],
  "another digest": [
    { digest: formatReprDigest(sha256) },
    { body: html, headers: { "repr-digest": formatReprDigest("0".repeat(64)) } },
  ],
};

interface Script {
  readonly grant: Grant;
  /** Takes the n-th request for bytes, from 0 on; the others get the file. */
  readonly page: (index: number) => Page | undefined;
  /** Bytes of the first response after which it breaks. */
  readonly breakAfter?: number;
  readonly delivery?: "redirect" | "downloadUrl" | undefined;
}

async function startServer({ grant, page, breakAfter, delivery }: Script): Promise<RawServer> {
  const { mimeType, size, ...meta } = grant;
  let requests = 0;
  function send(req: IncomingMessage, res: ServerResponse): void {
    const index = requests++;
    res.setHeader("mcp-resource-uri", uri);
    const served = page(index);
    if (served) {
      const { body, headers = {}, isChunked = false } = served;
      res.writeHead(200, { ...headers, ...(!isChunked && { "content-length": body.length }) });
      return void res.end(body);
    }
    const range = req.headers["if-range"] === tag.etag && parseRange(req.headers.range, 100_000);
    if (range === "unsatisfiable") return void res.writeHead(416).end();
    const { start, end } = range || { start: 0, end: content.length };
    if (range) res.setHeader("content-range", formatContentRange({ range, size: content.length }));
    res.writeHead(range ? 206 : 200, { ...tag, "content-length": end - start });
    const body = content.subarray(start, end);
    if (index > 0 || breakAfter === undefined) return void res.end(body);
    res.write(body.subarray(0, breakAfter), () => res.socket?.end());
  }
  const server: RawServer = await startRawServer({
    stream(request, res) {
      const url = `${server.origin}/d`;
      const type = mimeType === undefined ? {} : { mimeType };
      const bytes = size === undefined ? {} : { size };
      const _meta = { "dev.sluice/resource-streaming": meta };
      if (delivery !== "redirect") return replyUrl(res, request, url, { ...type, ...bytes, _meta });
      res.setHeader("mcp-resource-uri", uri);
      if (mimeType !== undefined) res.setHeader("mcp-resource-type", mimeType);
      if (size !== undefined) res.setHeader("mcp-resource-size", size);
      return void res.writeHead(302, { location: url }).end();
    },
    get: send,
  });
  return server;
}

/** The code of the error; absent if the file arrived whole. */
async function save(script: Script, options: SaveOptions = {}): Promise<string | undefined> {
  await using server = await startServer(script);
  const client = createRawClient(server.url, withStreaming());
  try {
    const stream = await streamResource(client, uri, { timeouts: { pauseScale: 0 } });
    const { path } = await stream.saveTo(directory, options);
    const bytes = await readFile(path);
    await rm(path);
    return bytes.equals(content) ? undefined : `${bytes.length} other bytes`;
  } catch (error) {
    return (error as { code?: string }).code;
  }
}

// a redirect tells type and size, and nothing else
const cases = Object.entries(pages).flatMap(([name, [grant, page]]) => {
  const isRedirected = !("etag" in grant) && !("digest" in grant);
  const deliveries = isRedirected ? (["downloadUrl", "redirect"] as const) : [undefined];
  return deliveries.map((delivery) => ({ name, grant, page, delivery }));
});

test.each(cases)(
  "a response of 200 that is not the file is asked for again, and then refused: $name, $delivery",
  async ({ grant, page, delivery }) => {
    const once = (index: number): Page | undefined => (index === 0 ? page : undefined);
    expect(await save({ grant, page: once, delivery })).toBe(undefined);
    const refusals = /^(corrupt|unavailable|precondition_failed)$/;
    expect(await save({ grant, page: () => page, delivery })).toMatch(refusals);
    expect(await readdir(directory)).toEqual([]);
  },
);

test.each([{}, { connections: 2 }, { resume: true }] as const)(
  "the page of an error in place of the rest is asked for again, and never becomes the file: %j",
  { tags: "slow" },
  async (options) => {
    const page: Page = { body: html, headers: ofType("text/html"), isChunked: true };
    // known by its type, and where no type is known, by the tag that it does not have
    for (const grant of [pdf, {}])
      for (const breakAfter of [0, 50_000]) {
        const once = (index: number): Page | undefined => (index === 1 ? page : undefined);
        expect(await save({ grant, page: once, breakAfter }, options)).toBe(undefined);
        const always = (index: number): Page | undefined => (index > 0 ? page : undefined);
        expect(await save({ grant, page: always, breakAfter }, options)).toBe("unavailable");
      }
  },
);

test("a length that is right vouches for a file that its storage labels in another way", async () => {
  const labelled: Page = { body: content, headers: { ...tag, ...ofType("text/html") } };
  const grant = { mimeType: "text/markdown", size: content.length };
  expect(await save({ grant, page: () => labelled })).toBe(undefined);
  const same = { ...labelled, headers: ofType("application/json"), isChunked: true };
  expect(await save({ grant: { mimeType: "application/x-ndjson" }, page: () => same })).toBe(
    undefined,
  );
  const plain = { ...labelled, headers: ofType("binary/octet-stream"), isChunked: true };
  expect(await save({ grant: pdf, page: () => plain })).toBe(undefined);
});
