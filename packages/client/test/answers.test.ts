import type { OutgoingHttpHeaders } from "node:http";
import { brotliCompressSync, deflateSync, gzipSync } from "node:zlib";
import { formatResourceUri } from "@sluice/core/internal";
import { expect, test } from "vitest";
import { streamResource } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { withStreaming as withPortableStreaming } from "../src/internal.ts";
import { createRawClient } from "./raw-client.ts";
import { reply, replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

const uri = "x://file";
const read = async (server: RawServer, fetch = withStreaming(), of = uri): Promise<string> => {
  const stream = await streamResource(createRawClient(server.url, fetch), of);
  return new Response(stream.body).text();
};

const poses = (origin: string, id: unknown): string[] => {
  const result = { uri, downloadUrl: `${origin}/stolen` };
  const message = { jsonrpc: "2.0", id, result };
  return [
    JSON.stringify(message),
    JSON.stringify([message]),
    JSON.stringify({ jsonrpc: "2.0", id, error: { code: -32002, message: "gone" } }),
    `data: ${JSON.stringify(message)}\n\n`,
    `event: message\nid: 1\ndata: ${JSON.stringify(message)}\n\n`,
  ];
};
const types = [
  "application/json",
  "application/json; charset=utf-8",
  "APPLICATION/JSON",
  "application/vnd.api+json",
  "application/problem+json",
  "text/json",
  "text/event-stream",
  "text/event-stream;charset=utf-8",
  " application/json ",
  "application/json;",
];

test("a resource that looks like JSON-RPC is bytes, in every mode", { tags: "slow" }, async () => {
  let type = "";
  let body = "";
  await using server = await startRawServer({
    stream(request, res) {
      if (request.params.uri === "x://url") return replyUrl(res, request, `${server.origin}/d/url`);
      if (request.params.uri === "x://302")
        return void res.writeHead(302, { location: "/d/302", "mcp-resource-uri": "x://302" }).end();
      body = body.replace('"id":"ID"', `"id":${JSON.stringify(request.id)}`);
      const headers = { "content-type": type, "mcp-resource-uri": request.params.uri };
      res.writeHead(200, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
    },
    get(req, res) {
      const name = `x://${req.url?.slice("/d/".length)}`;
      const headers = { "content-type": type, "mcp-resource-uri": name };
      res.writeHead(200, { ...headers, "content-length": Buffer.byteLength(body) }).end(body);
    },
  });
  for (const of of ["x://direct", "x://302", "x://url"])
    for (type of types)
      for (const pose of poses(server.origin, "ID")) {
        body = pose;
        const got = await read(server, withStreaming(), of);
        expect(got).toBe(body);
      }
  expect(server.seen.some(({ url }) => url === "/stolen")).toBe(false);
});

test("JSON without the resource's name is the protocol, and steers nowhere else", async () => {
  await using server = await startRawServer({
    stream(request, res) {
      const { uri: asked } = request.params;
      if (asked === "x://id")
        return reply(
          res,
          { ...request, id: 999 },
          { result: { uri, downloadUrl: "https://a.example/" } },
        );
      return replyUrl(
        res,
        { ...request, params: { ...request.params, uri: "x://other" } },
        `${server.origin}/d`,
      );
    },
  });
  await expect(read(server)).rejects.toMatchObject({ code: "protocol" });
});

const answersOf: Record<string, (id: unknown) => string> = {
  "another request": () => JSON.stringify({ jsonrpc: "2.0", id: 999, result: { uri } }),
  "the same number as a text": (id) =>
    JSON.stringify({ jsonrpc: "2.0", id: String(id), result: { uri } }),
  "an error of another request": () =>
    JSON.stringify({ jsonrpc: "2.0", id: 999, error: { code: -32002, message: "gone" } }),
};

test.each(Object.entries(answersOf))(
  "an answer to %s is refused at once, in JSON and in events",
  async (_name, answer) => {
    for (const asEvents of [false, true]) {
      await using server = await startRawServer({
        stream({ id }, res) {
          res.writeHead(200, {
            "content-type": asEvents ? "text/event-stream" : "application/json",
          });
          // the stream of events stays open
          if (asEvents) res.write(`data: ${answer(id)}\n\n`);
          else res.end(answer(id));
        },
      });
      await expect(read(server)).rejects.toMatchObject({
        code: "protocol",
        message: expect.stringContaining("another request") as string,
      });
    }
  },
);

test("an error without an id is the call's own", async () => {
  await using server = await startRawServer({
    stream(_request, res) {
      reply(res, { ..._request, id: null }, { error: { code: -32602, message: "bad" } });
    },
  });
  await expect(read(server)).rejects.toMatchObject({ code: "invalid_argument" });
});

test("a stream of events that ends without an answer, and without an id to go on from, is an error at once", async () => {
  const note = JSON.stringify({ jsonrpc: "2.0", method: "notifications/message", params: {} });
  for (const body of ["", `data: ${note}\n\n`, "data: half an ev"]) {
    await using server = await startRawServer({
      stream(_request, res) {
        res.writeHead(200, { "content-type": "text/event-stream" }).end(body);
      },
    });
    await expect(read(server)).rejects.toMatchObject({
      code: "interrupted",
      message: expect.stringContaining("without a response") as string,
    });
  }
});

test("a JSON answer that drips is a timeout, also where its end is that of the connection", async () => {
  await using server = await startRawServer({
    stream(_request, res) {
      res.socket!.write("HTTP/1.1 200 OK\r\nContent-Type: application/json\r\n\r\n");
      const drip = setInterval(() => res.socket?.write(" "), 5);
      res.socket!.once("close", () => clearInterval(drip));
    },
  });
  const client = createRawClient(server.url, withStreaming());
  const asked = streamResource(client, uri, { timeouts: { headersMs: 100 } });
  await expect(asked).rejects.toMatchObject({ code: "timeout" });
});

test("bytes are taken only when they are named exactly as asked", async () => {
  for (const name of [
    "x://other",
    "X://FILE",
    "x://file/",
    "x://fil",
    `${uri}, ${uri}`,
    "",
    "=?base64?eDovL290aGVy?=",
  ])
    for (const mode of ["direct", "url"]) {
      await using server = await startRawServer({
        stream(request, res) {
          if (mode === "url") return replyUrl(res, request, `${server.origin}/d`);
          res
            .writeHead(200, { "content-type": "image/png", "mcp-resource-uri": name })
            .end("other bytes");
        },
        get(_req, res) {
          res
            .writeHead(200, { "content-length": 5, ...(name && { "mcp-resource-uri": name }) })
            .end("bytes");
        },
      });
      await expect(read(server), `${mode} ${name}`).rejects.toMatchObject({ code: "protocol" });
    }
});

test("two names are as good as none", async () => {
  await using server = await startRawServer({
    stream(_request, res) {
      res.setHeader("mcp-resource-uri", [uri, uri]);
      res.writeHead(200, { "content-length": 5 }).end("bytes");
    },
  });
  await expect(read(server)).rejects.toMatchObject({ code: "protocol" });
});

test("a name outside ASCII is compared as it is meant", async () => {
  const name = "x://ほげ/файл";
  await using server = await startRawServer({
    stream(request, res) {
      const headers = {
        "mcp-resource-uri": formatResourceUri(request.params.uri),
        "content-length": 5,
      };
      res.writeHead(200, headers).end("bytes");
    },
  });
  expect(await read(server, withStreaming(), name)).toBe("bytes");
});

const zeros = Buffer.alloc(20_000_000);
const bombs: readonly (readonly [string, Buffer])[] = [
  ["gzip", gzipSync(zeros)],
  ["x-gzip", gzipSync(zeros)],
  ["deflate", deflateSync(zeros)],
  ["br", brotliCompressSync(zeros.subarray(0, 2_000_000))],
  ["zstd", Buffer.from("28b52ffd")],
  ["gzip, gzip", gzipSync(gzipSync(zeros))],
  ["identity, gzip", gzipSync(zeros)],
  ["GZIP", gzipSync(zeros)],
  ["aws-chunked", Buffer.from("5\r\nbytes\r\n")],
];

test.each([
  ["Node's HTTP client", withStreaming()],
  ["a fetch", withPortableStreaming()],
])("compressed bytes are refused, not unpacked, over %s", async (_name, fetch) => {
  for (const [coding, bomb] of bombs)
    for (const mode of ["direct", "url"]) {
      const headers = {
        "content-encoding": coding,
        "content-length": bomb.length,
        "mcp-resource-uri": uri,
      };
      await using server = await startRawServer({
        stream(request, res) {
          if (mode === "url") return replyUrl(res, request, `${server.origin}/d`);
          res.writeHead(200, headers).end(bomb);
        },
        get(_req, res) {
          res.writeHead(200, headers).end(bomb);
        },
      });
      await expect(read(server, fetch), `${mode} ${coding}`).rejects.toMatchObject({
        code: "protocol",
      });
      for (const { headers: sent } of server.seen) expect(sent["accept-encoding"]).toBe("identity");
    }
});

test("bytes that the storage keeps compressed come as they are kept, when they prove to be kept", async () => {
  const bytes = gzipSync("kept");
  const kept = { "content-encoding": "GZIP", etag: '"v1"', "content-length": bytes.length };
  let headers: OutgoingHttpHeaders = kept;
  await using server = await startRawServer({
    stream(_request, res) {
      res.writeHead(200, { ...headers, "mcp-resource-uri": uri }).end(bytes);
    },
  });
  const ask = () => streamResource(createRawClient(server.url, withStreaming()), uri);
  const stream = await ask();
  expect(stream).toMatchObject({ contentEncoding: "gzip", size: bytes.length });
  expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);
  for (const [coding, named] of [
    ["br, x-gzip", "br, x-gzip"],
    // by mistake of an uploader: no coding, and nothing to unpack
    ["utf-8", undefined],
    // left in the metadata by an upload to a store that is like S3
    ["aws-chunked", undefined],
    ["gzip, aws-chunked", "gzip"],
  ] as const) {
    headers = { ...kept, "content-encoding": coding };
    const { contentEncoding, body } = await ask();
    expect(contentEncoding).toBe(named);
    await body.cancel();
  }
  const { "content-length": _length, ...unmeasured } = kept;
  for (headers of [unmeasured, { ...kept, etag: 'W/"v1"' }, { ...kept, "content-encoding": "x" }])
    await expect(ask()).rejects.toMatchObject({ code: "protocol" });
});

test("facts of the metadata and of the answer must agree", async () => {
  const a = `sha-256=:${Buffer.alloc(32, 1).toString("base64")}:`;
  const b = `sha-256=:${Buffer.alloc(32, 2).toString("base64")}:`;
  const lies: object[] = [
    { size: 6 },
    { size: 0 },
    { _meta: { "dev.sluice/resource-streaming": { auth: "bound", digest: b } } },
  ];
  for (const lie of lies) {
    await using server = await startRawServer({
      stream(request, res) {
        replyUrl(res, request, `${server.origin}/d`, lie);
      },
      get(_req, res) {
        const headers = { "content-length": 5, "mcp-resource-uri": uri, "repr-digest": a };
        res.writeHead(200, headers).end("bytes");
      },
    });
    await expect(read(server)).rejects.toMatchObject({ code: "corrupt" });
  }
});

test("bytes with another digest than was promised never end cleanly", async () => {
  const digest = `sha-256=:${Buffer.alloc(32, 1).toString("base64")}:`;
  await using server = await startRawServer({
    stream(_request, res) {
      const headers = { "content-length": 5, "mcp-resource-uri": uri, "repr-digest": digest };
      res.writeHead(200, headers).end("bytes");
    },
  });
  await expect(read(server)).rejects.toMatchObject({ code: "corrupt" });
});

test("requireDigest refuses a resource that cannot be checked", async () => {
  await using server = await startRawServer({
    stream(_request, res) {
      res.writeHead(200, { "content-length": 5, "mcp-resource-uri": uri }).end("bytes");
    },
  });
  const client = createRawClient(server.url, withStreaming());
  await expect(streamResource(client, uri, { requireDigest: true })).rejects.toMatchObject({
    code: "unsupported",
  });
});

test("every HTTP status that brings no bytes has a code that says what to do", async () => {
  const codes = { 400: "protocol", 401: "unauthenticated", 403: "permission_denied", 404: "not_found",
    405: "protocol", 410: "expired", 413: "too_large", 500: "unavailable", 503: "unavailable", 429: "throttled" }; // prettier-ignore
  for (const [status, code] of Object.entries(codes))
    for (const mode of ["direct", "url"]) {
      await using server = await startRawServer({
        stream(request, res) {
          if (mode === "url") return replyUrl(res, request, `${server.origin}/d`);
          res.writeHead(Number(status), { "content-type": "text/html" }).end("<b>secret words</b>");
        },
        get(_req, res) {
          res.writeHead(Number(status), { "content-type": "text/html" }).end("<b>secret words</b>");
        },
      });
      const client = createRawClient(server.url, withStreaming());
      const timeouts = { pauseScale: 0 };
      const error: unknown = await streamResource(client, uri, { timeouts }).catch(
        (reason: unknown) => reason,
      );
      expect(error, `${mode} ${status}`).toMatchObject({ code });
      expect(String(error)).not.toContain("secret words");
      expect(server.seen.length).toBeLessThanOrEqual(8);
    }
});

test("a JSON-RPC error keeps its meaning under an HTTP status of its own", async () => {
  await using server = await startRawServer({
    stream({ id }, res) {
      const error = { code: -32021, message: "x", data: { reason: "client_capability" } };
      res.writeHead(400, { "content-type": "application/json" });
      res.end(JSON.stringify({ jsonrpc: "2.0", id, error }));
    },
  });
  await expect(read(server)).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringContaining("createStreaming().capabilities"),
  });
});

test("the reason beside a JSON-RPC error wins over its number", async () => {
  await using server = await startRawServer({
    stream(request, res) {
      const data = { reason: "busy", retryAfterMs: 61_000 };
      reply(res, request, { error: { code: -32603, message: "x", data } });
    },
  });
  await expect(read(server)).rejects.toMatchObject({ code: "throttled", retryAfterMs: 61_000 });
});

test("bytes come with 200, whatever else a server calls a success", async () => {
  for (const status of [201, 202, 203, 204, 205, 206]) {
    await using server = await startRawServer({
      stream: (request, res) =>
        res
          .writeHead(status, { "content-length": 0, "mcp-resource-uri": request.params.uri })
          .end(),
    });
    const outcome = streamResource(createRawClient(server.url, withStreaming()), uri);
    await expect(outcome, String(status)).rejects.toMatchObject({ code: "protocol" });
    await expect.poll(() => server.open(), { timeout: 3_500 }).toBe(0);
  }
});

test("a transport without the middleware, and a server without the method, are told what is missing", async () => {
  await using server = await startRawServer({
    stream: (request, res) => replyUrl(res, request, `${server.origin}/d`),
  });
  const bare = streamResource(createRawClient(server.url, fetch), uri);
  await expect(bare).rejects.toMatchObject({
    code: "untrusted",
    message: expect.stringContaining("createStreaming().fetch"),
  });
  await using old = await startRawServer({
    stream: (request, res) => reply(res, request, { error: { code: -32601, message: "no" } }),
  });
  for (const over of [fetch, withStreaming()])
    await expect(streamResource(createRawClient(old.url, over), uri)).rejects.toMatchObject({
      code: "unsupported",
      message: expect.stringContaining("resources/read"),
    });
});
