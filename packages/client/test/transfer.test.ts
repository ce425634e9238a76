import { createHash } from "node:crypto";
import { mkdtemp, rm } from "node:fs/promises";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { expect, onTestFinished, test } from "vitest";
import { streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { withStreaming as withPortableStreaming } from "../src/internal.ts";
import { startFileServer, type ServedFile } from "./file-server.ts";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

const uri = "x://file";
const deep = process.env["SLUICE_DEEP"] !== undefined;
const timeouts = { pauseScale: 0 };
const sha256 = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

function open(
  server: RawServer,
  options: Parameters<typeof streamResource>[2] = {},
): Promise<ResourceStream> {
  return streamResource(createRawClient(server.url, withStreaming()), uri, {
    timeouts,
    ...options,
  });
}

async function read(stream: ResourceStream): Promise<Buffer> {
  return Buffer.from(await new Response(stream.body).arrayBuffer());
}

// a server that always sends the same cut answer, whatever is asked
async function startCutServer(head: string, body: Buffer) {
  const sockets = createServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(head);
      socket.end(body);
    });
  });
  await new Promise<void>((resolve) => sockets.listen(0, "127.0.0.1", resolve));
  const { port } = sockets.address() as { port: number };
  return {
    origin: `http://127.0.0.1:${port}`,
    async [Symbol.asyncDispose]() {
      await new Promise((resolve) => sockets.close(resolve));
    },
  };
}

const whole = Buffer.alloc(5_000, "0123456789");
const chunked = Buffer.concat([
  Buffer.from(`${(3_000).toString(16)}\r\n`),
  whole.subarray(0, 3_000),
  Buffer.from(`\r\n${(2_000).toString(16)}\r\n`),
  whole.subarray(3_000),
  Buffer.from("\r\n0\r\n\r\n"),
]);
const named = `HTTP/1.1 200 OK\r\nMCP-Resource-Uri: ${uri}\r\n`;
const framings = {
  "a length": [`${named}Content-Length: 5000\r\nConnection: close\r\n\r\n`, whole],
  chunks: [`${named}Transfer-Encoding: chunked\r\nConnection: close\r\n\r\n`, chunked],
  "the connection": [`${named}Connection: close\r\n\r\n`, whole],
} as const;

test.each(Object.entries(framings))(
  "a body framed by %s and cut anywhere is never taken for whole",
  { timeout: 600_000 },
  async (_name, [head, body]) => {
    const cuts = deep ? 1_000 : 25;
    for (let cut = 0; cut < cuts; cut++) {
      const offset = Math.floor((body.length / cuts) * cut);
      await using peer = await startCutServer(head, body.subarray(0, offset));
      await using server = await startRawServer({
        stream(request, res) {
          replyUrl(res, request, `${peer.origin}/d`);
        },
      });
      const outcome = await open(server, { trustedOrigins: [peer.origin] })
        .then(read)
        .catch((error: unknown) => error);
      expect(outcome, `cut at ${offset}`).toMatchObject({
        code: expect.stringMatching(/^(interrupted|protocol|unavailable|precondition_failed)$/),
      });
    }
  },
);

test("the same bodies uncut arrive, unless only the connection tells where they end", async () => {
  const outcomes = Object.values(framings).map(async ([head, body]) => {
    await using peer = await startCutServer(head, body);
    await using server = await startRawServer({
      stream(request, res) {
        replyUrl(res, request, `${peer.origin}/d`);
      },
    });
    return await open(server, { trustedOrigins: [peer.origin] })
      .then(read)
      .then((bytes) => bytes.equals(whole))
      .catch(({ code }: { code: string }) => code);
  });
  expect(await Promise.all(outcomes)).toEqual([true, true, "protocol"]);
});

test("a fetch that takes a cut connection for the end is not believed", async () => {
  const [head, body] = framings.chunks;
  await using peer = await startCutServer(head, body.subarray(0, 2_000));
  const response = await fetch(`${peer.origin}/d`);
  const believed = await response
    .arrayBuffer()
    .then(() => true)
    .catch(() => false);
  await using server = await startRawServer({
    stream(request, res) {
      replyUrl(res, request, `${peer.origin}/d`);
    },
  });
  const client = createRawClient(server.url, withPortableStreaming());
  const options = { timeouts, trustedOrigins: [peer.origin] };
  const outcome = await streamResource(client, uri, options)
    .then(read)
    .catch((error: unknown) => error);
  expect(outcome, `the platform's fetch believed it: ${believed}`).toMatchObject({
    code: "protocol",
  });
});

const content = Buffer.alloc(700_000, "abcdefghij");

test.each(["linked", "redirect", "downloadUrl"] as const)(
  "a stream over %s that breaks again and again arrives whole and without a repeated byte",
  async (delivery) => {
    const file: ServedFile = { content, breakAfter: 150_000, delivery };
    await using server = await startFileServer(file);
    const stream = await open(server);
    expect(stream.mode).toBe(delivery === "linked" ? "direct" : delivery);
    expect(sha256(await read(stream))).toBe(sha256(content));
    const ranges = server.seen.flatMap(({ headers }) => headers.range ?? []);
    expect(ranges).toHaveLength(4);
    expect(
      server.seen.every(({ headers }) => !headers.range || headers["if-range"] === '"v1"'),
    ).toBe(true);
  },
);

test("direct bytes without a way back are an error once some were read", async () => {
  await using server = await startFileServer({ content, breakAfter: 150_000, delivery: "direct" });
  await expect(open(server).then(read)).rejects.toMatchObject({ code: "interrupted" });
});

test("a link that is over is asked for again", async () => {
  for (const status of [401, 404, 410]) {
    let refusals = 0;
    const file: ServedFile = {
      content,
      breakAfter: 300_000,
      before(req, res) {
        if (req.headers.range === undefined || refusals++ % 2 === 1) return false;
        res.writeHead(status).end();
        return true;
      },
    };
    await using server = await startFileServer(file);
    expect(sha256(await read(await open(server))), String(status)).toBe(sha256(content));
    expect(server.seen.filter(({ method }) => method === "POST").length).toBeGreaterThan(1);
  }
});

test("a link that is always over ends the transfer", async () => {
  const file: ServedFile = {
    content,
    before(_req, res) {
      res.writeHead(404).end();
      return true;
    },
  };
  await using server = await startFileServer(file);
  await expect(open(server)).rejects.toMatchObject({ code: "not_found" });
  expect(server.seen.filter(({ method }) => method === "POST")).toHaveLength(3);
});

test("a busy server is waited for as it asks", async () => {
  let refusals = 0;
  const file: ServedFile = {
    content,
    before(_req, res) {
      if (refusals++ > 2) return false;
      res.writeHead(503, { "retry-after": "0" }).end();
      return true;
    },
  };
  await using server = await startFileServer(file);
  expect(sha256(await read(await open(server)))).toBe(sha256(content));
});

test("a server that drains as it is asked is asked again when it says so, and only then", async () => {
  for (const [retryAfter, posts] of [
    [{ "retry-after": "0" }, 3],
    [{}, 1],
  ] as const) {
    let refusals = 0;
    await using file = await startFileServer({ content });
    await using server = await startRawServer({
      stream(request, res) {
        if (refusals++ > 1)
          return replyUrl(res, request, `${file.origin}/d/${encodeURIComponent(uri)}`);
        res.writeHead(503, { "content-type": "application/problem+json", ...retryAfter });
        res.end('{"status":503,"reason":"draining"}');
      },
    });
    const outcome = await open(server, { trustedOrigins: [file.origin] })
      .then(read)
      .then(sha256, (error: { code?: string }) => error.code);
    expect(outcome).toBe(posts === 1 ? "unavailable" : sha256(content));
    expect(server.seen.filter(({ body }) => body.includes("resources/stream"))).toHaveLength(posts);
  }
});

test("bytes of two versions never meet in a stream", { timeout: 600_000 }, async () => {
  const runs = deep ? 1_000 : 30;
  for (let run = 0; run < runs; run++) {
    const versions = [Buffer.alloc(200_000, "A"), Buffer.alloc(200_000, "B")];
    const file: ServedFile = {
      content: versions[0] as Buffer,
      breakAfter: 1 + Math.floor((run / runs) * 199_998),
    };
    await using server = await startFileServer(file);
    const stream = await open(server);
    const reader = stream.body.getReader();
    const first = await reader.read();
    file.content = versions[1] as Buffer;
    file.etag = '"v2"';
    delete file.breakAfter;
    reader.releaseLock();
    const seen = [Buffer.from(first.value ?? [])];
    const outcome = await (async () => {
      for await (const chunk of stream.body) seen.push(Buffer.from(chunk));
      return "whole";
    })().catch((error: unknown) => error);
    const bytes = Buffer.concat(seen);
    expect(new Set(bytes).size, `break at ${file.breakAfter}`).toBe(1);
    expect(outcome).toMatchObject({ code: "precondition_failed" });
  }
});

test("a server without ranges that breaks off again and again is not told as a change", async () => {
  await using server = await startFileServer({ content, ranges: false, breakAfter: 200_000 });
  const folder = await mkdtemp(join(tmpdir(), "sluice-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const saving = open(server).then((stream) => stream.saveTo(folder));
  await expect(saving).rejects.toMatchObject({
    code: "interrupted",
    retryable: true,
    message: expect.stringContaining("gives no ranges") as string,
  });
});

test("ranges that lie are refused", async () => {
  const size = 100_000;
  const bytes = Buffer.alloc(size, "x");
  const lies: Record<string, (start: number) => [number, Record<string, string | number>, Buffer]> =
    {
      "another start": (at) => [
        206,
        { "content-range": `bytes ${at + 1}-${size - 1}/${size}` },
        bytes.subarray(at + 1),
      ],
      "another end": (at) => [
        206,
        { "content-range": `bytes ${at}-${size - 2}/${size}` },
        bytes.subarray(at, size - 1),
      ],
      "another total": (at) => [
        206,
        { "content-range": `bytes ${at}-${size}/${size + 1}` },
        Buffer.concat([bytes.subarray(at), bytes.subarray(0, 1)]),
      ],
      "no range": (at) => [206, {}, bytes.subarray(at)],
      "a range in other units": (at) => [
        206,
        { "content-range": `items ${at}-${size - 1}/${size}` },
        bytes.subarray(at),
      ],
      "many ranges": (at) => [
        206,
        { "content-type": "multipart/byteranges; boundary=x" },
        bytes.subarray(at),
      ],
      "a length of its own": (at) => [
        206,
        { "content-range": `bytes ${at}-${size - 1}/${size}`, "content-length": 5 },
        bytes.subarray(0, 5),
      ],
      "a weak tag": (at) => [
        206,
        { "content-range": `bytes ${at}-${size - 1}/${size}`, etag: 'W/"v1"' },
        bytes.subarray(at),
      ],
      "no tag": (at) => [
        206,
        { "content-range": `bytes ${at}-${size - 1}/${size}`, etag: "" },
        bytes.subarray(at),
      ],
      "the whole": () => [200, {}, bytes],
      nothing: () => [416, { "content-range": `bytes */${size}` }, Buffer.alloc(0)],
    };
  for (const [name, lie] of Object.entries(lies)) {
    const file: ServedFile = {
      content: bytes,
      breakAfter: 40_000,
      before(req, res) {
        const start = Number(/bytes=(\d+)-/.exec(req.headers.range ?? "")?.[1] ?? -1);
        if (start < 0) return false;
        const [status, headers, body] = lie(start);
        res.writeHead(status, {
          "content-length": body.length,
          etag: '"v1"',
          "mcp-resource-uri": uri,
          ...headers,
        });
        res.end(body);
        return true;
      },
    };
    await using server = await startFileServer(file);
    await expect(open(server).then(read), name).rejects.toMatchObject({
      code: expect.stringMatching(/^(protocol|precondition_failed|interrupted)$/),
    });
  }
});

test("a part that was not asked for is refused", async () => {
  await using server = await startFileServer({
    content,
    before(_req, res) {
      res
        .writeHead(206, {
          "content-length": 5,
          "content-range": "bytes 0-4/5",
          "mcp-resource-uri": uri,
        })
        .end("bytes");
      return true;
    },
  });
  await expect(open(server)).rejects.toMatchObject({ code: "protocol" });
});

test("more bytes than the limit end the transfer within a chunk", async () => {
  const limit = 200_000;
  for (const declared of [undefined, 100, limit + 1])
    for (const mode of ["direct", "url"]) {
      let sent = 0;
      await using server = await startRawServer({
        stream(request, res) {
          if (mode === "url")
            return replyUrl(
              res,
              request,
              `${server.origin}/d`,
              declared === undefined ? {} : { size: declared },
            );
          return endless(res);
        },
        get(_req, res) {
          endless(res);
        },
      });
      // oxlint-disable-next-line no-inner-declarations -- closes over the counter of this round
      function endless(res: import("node:http").ServerResponse): void {
        res.writeHead(200, { "mcp-resource-uri": uri });
        const chunk = Buffer.alloc(16_384);
        const more = (): void => {
          while (!res.destroyed && sent < 100_000_000) {
            sent += chunk.length;
            if (!res.write(chunk)) return void res.once("drain", more);
          }
        };
        more();
      }
      let received = 0;
      const onProgress = ({ bytes }: { bytes: number }) => (received = bytes);
      const outcome = await open(server, { maxStreamBytes: limit, onProgress })
        .then(read)
        .catch((error: unknown) => error);
      expect(outcome).toMatchObject({ code: expect.stringMatching(/^(too_large|protocol)$/) });
      expect(received).toBeLessThanOrEqual(limit);
    }
});

test("a declared size over the limit is refused before a byte is read", async () => {
  await using server = await startFileServer({ content });
  await expect(open(server, { maxStreamBytes: content.length - 1 })).rejects.toMatchObject({
    code: "too_large",
    size: content.length,
    message: expect.stringContaining("maxStreamBytes"),
  });
  const stream = await open(server, { maxStreamBytes: content.length });
  await stream.body.cancel();
  expect(server.seen[0]?.body).toContain(`"maxStreamSize":${content.length - 1}`);
});

function drip(everyMs: number): ServedFile {
  return {
    content,
    before(_req, res) {
      res.writeHead(200, { "content-length": 1_000, etag: '"v1"', "mcp-resource-uri": uri });
      res.write("x");
      const timer = setInterval(() => res.write("x"), everyMs);
      res.on("close", () => clearInterval(timer));
      return true;
    },
  };
}

test("a server that drips is given up by its rate, by the total time, and when it stops", async () => {
  const cases = [
    { rateWindowMs: 100, minBytesPerSecond: 1_000, code: "timeout", everyMs: 10 },
    { totalMs: 100, rateWindowMs: 10_000, code: "timeout", everyMs: 10 },
    { idleMs: 40, code: "interrupted", everyMs: 1_000 },
  ];
  for (const { code, everyMs, ...limits } of cases) {
    await using server = await startFileServer(drip(everyMs));
    const outcome = open(server, { timeouts: { ...timeouts, ...limits } }).then(read);
    await expect(outcome).rejects.toMatchObject({ code });
  }
});

test("the total time is one for all connections of a transfer", async () => {
  const file: ServedFile = {
    content,
    breakAfter: 70_000,
    before(_req, res) {
      const write = res.write.bind(res) as (chunk: Buffer, then: () => void) => boolean;
      res.write = ((chunk: Buffer, then: () => void) => {
        res.flushHeaders();
        setTimeout(() => write(chunk, then), 60);
        return true;
      }) as typeof res.write;
      return false;
    },
  };
  await using server = await startFileServer(file);
  const outcome = open(server, { timeouts: { ...timeouts, totalMs: 150 } }).then(read);
  await expect(outcome).rejects.toMatchObject({ code: "timeout" });
});

test("a reader that takes its time is not the server's fault", async () => {
  await using server = await startFileServer({ content });
  const limits = { idleMs: 30, rateWindowMs: 30, minBytesPerSecond: 1_000_000 };
  const stream = await open(server, { timeouts: { ...timeouts, ...limits } });
  let bytes = 0;
  for await (const chunk of stream.body) {
    bytes += chunk.length;
    if (bytes < 200_000) await new Promise((resolve) => setTimeout(resolve, 60));
  }
  expect(bytes).toBe(content.length);
});

test("headers that never come are a timeout, also for the call itself", async () => {
  for (const mode of ["direct", "url"]) {
    await using server = await startRawServer({
      stream(request, res) {
        if (mode === "url") replyUrl(res, request, `${server.origin}/d`);
      },
      get() {},
    });
    const limits = { timeouts: { ...timeouts, headersMs: 40 } };
    await expect(open(server, limits)).rejects.toMatchObject({ code: "timeout" });
  }
});

test("an abort ends every phase with its own reason and closes every connection", async () => {
  const reason = new Error("enough of it");
  for (const phase of ["call", "headers", "body", "pause"]) {
    const abort = new AbortController();
    const later = (): void => void setTimeout(() => abort.abort(reason), 20);
    const file: ServedFile = {
      content,
      before(req, res) {
        if (phase === "headers") later();
        if (phase === "headers") return true;
        if (phase === "pause" && req.headers.range) {
          later();
          res.writeHead(503, { "retry-after": "50" }).end();
          return true;
        }
        return false;
      },
      ...(phase === "pause" && { breakAfter: 1_000 }),
    };
    await using server = await startFileServer(file);
    if (phase === "call") later();
    await using silent = await startRawServer({ stream() {} });
    const opening = streamResource(
      createRawClient(phase === "call" ? silent.url : server.url, withStreaming()),
      uri,
      {
        signal: abort.signal,
      },
    );
    const reading = async (): Promise<void> => {
      const reader = (await opening).body.getReader();
      await reader.read();
      if (phase === "body") abort.abort(reason);
      while (!(await reader.read()).done);
    };
    const outcome = reading();
    await expect(outcome, phase).rejects.toBe(reason);
    await expect.poll(() => server.open() + silent.open(), { timeout: 3_500 }).toBe(0);
  }
});

test("a body that is cancelled closes its connection", async () => {
  await using server = await startFileServer({ content: Buffer.alloc(20_000_000) });
  const stream = await open(server);
  const reader = stream.body.getReader();
  await reader.read();
  await reader.cancel();
  await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
});
