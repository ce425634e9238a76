import type { ServerResponse } from "node:http";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { streamResource, type ResourceStream } from "@sluice/client";
import { withStreaming } from "@sluice/client/internal";
import { createRawClient } from "./raw-client.ts";
import { replyUrl, startRawServer, type RawServer, type Seen } from "./raw-server.ts";

const uri = "x://file";
const secrets = {
  authorization: "Bearer secret-a",
  "mcp-session-id": "secret-b",
  cookie: "a=secret-c",
  "x-api-key": "secret-d",
  "proxy-authorization": "Basic secret-e",
  "mcp-name": "secret-f",
  "mcp-method": "secret-g",
  "mcp-protocol-version": "secret-h",
  traceparent: "secret-i",
  baggage: "secret-j",
  referer: "http://secret-k/",
  "x-custom": "secret-l",
};
const allowed = [
  "accept",
  "accept-encoding",
  "user-agent",
  "host",
  "connection",
  "range",
  "if-range",
];

let storage: RawServer;
beforeAll(async () => {
  storage = await startRawServer({
    get(_req, res) {
      res.writeHead(200, { "content-length": 5 }).end("bytes");
    },
  });
});
afterAll(() => storage[Symbol.asyncDispose]());

async function readAll(stream: ResourceStream): Promise<string> {
  return new Response(stream.body).text();
}

describe.each([301, 302, 303, 307, 308])("a %i", (code) => {
  test.each(["answer to resources/stream", "answer to the download URL"])(
    "carries nothing of the session to another origin, as the %s",
    async (where) => {
      await using server = await startRawServer({
        stream(request, res) {
          if (where.endsWith("URL")) return replyUrl(res, request, `${server.origin}/d`);
          res
            .writeHead(code, { location: `${storage.origin}/o?sig=1`, "mcp-resource-uri": uri })
            .end();
        },
        get(_req, res) {
          res.writeHead(code, { location: `${storage.origin}/o?sig=1` }).end();
        },
      });
      storage.seen.length = 0;
      const client = createRawClient(server.url, withStreaming(), secrets);
      const stream = await streamResource(client, uri, { trustedOrigins: [storage.origin] });
      expect(await readAll(stream)).toBe("bytes");
      const [seen] = storage.seen as [Seen];
      expect(storage.seen).toHaveLength(1);
      expect(seen.method).toBe("GET");
      expect(seen.body).toBe("");
      expect(JSON.stringify(seen)).not.toContain("secret");
      expect(Object.keys(seen.headers).filter((name) => !allowed.includes(name))).toEqual([]);
    },
  );

  test("is not followed to an untrusted origin", async () => {
    await using server = await startRawServer({
      stream(_request, res) {
        res.writeHead(code, { location: `${storage.origin}/o`, "mcp-resource-uri": uri }).end();
      },
    });
    storage.seen.length = 0;
    const client = createRawClient(server.url, withStreaming(), secrets);
    await expect(streamResource(client, uri)).rejects.toMatchObject({
      code: "untrusted",
      message: expect.stringContaining(storage.origin),
    });
    expect(storage.seen).toEqual([]);
  });
});

test("credentials go to the server's own origin when the link is bound, and stay home when it is not", async () => {
  for (const auth of ["bound", "self", undefined])
    for (const sessionBound of [true, false]) {
      await using server = await startRawServer({
        stream(request, res) {
          const meta = { "dev.sluice/resource-streaming": { ...(auth && { auth }), sessionBound } };
          replyUrl(res, request, `${server.origin}/d`, { _meta: meta });
        },
        get(_req, res) {
          res.writeHead(200, { "content-length": 5, "mcp-resource-uri": uri }).end("bytes");
        },
      });
      const client = createRawClient(server.url, withStreaming(), secrets);
      expect(await readAll(await streamResource(client, uri))).toBe("bytes");
      const get = server.seen.find(({ method }) => method === "GET") as Seen;
      const bound = auth !== "self";
      expect(get.headers.authorization).toBe(bound ? secrets.authorization : undefined);
      expect(get.headers["mcp-session-id"]).toBe(
        bound && sessionBound ? secrets["mcp-session-id"] : undefined,
      );
      expect(JSON.stringify(get)).not.toMatch(/secret-[c-l]/);
    }
});

test("circles of redirects and chains of more than two end, each with its own reason", async () => {
  const chains = [
    { next: (at: number) => at, reason: "in circles" },
    { next: (at: number) => at + 1, reason: "more than 2 times" },
  ];
  for (const { next, reason } of chains) {
    await using server = await startRawServer({
      stream(request, res) {
        replyUrl(res, request, `${server.origin}/0`);
      },
      get(req, res) {
        res.writeHead(302, { location: `/${next(Number(req.url?.slice(1)))}` }).end();
      },
    });
    const client = createRawClient(server.url, withStreaming());
    await expect(streamResource(client, uri)).rejects.toMatchObject({
      code: "protocol",
      message: expect.stringContaining(reason) as string,
    });
    expect(server.seen.filter(({ method }) => method === "GET").length).toBeLessThanOrEqual(3);
  }
});

describe.each([302, 307])("a %i to the server's own origin", (code) => {
  const redirectTo = (location: string, name?: string) => (res: ServerResponse) =>
    void res.writeHead(code, { location, ...(name && { "mcp-resource-uri": name }) }).end();
  const sendBytes = (res: ServerResponse, name?: string) =>
    void res
      .writeHead(200, { "content-length": 5, ...(name && { "mcp-resource-uri": name }) })
      .end("bytes");
  const read = async (server: RawServer) =>
    readAll(await streamResource(createRawClient(server.url, withStreaming()), uri));

  test("names the resource, so that its target need not", async () => {
    await using server = await startRawServer({
      stream: (_request, res) => redirectTo("/content", uri)(res),
      get: (_req, res) => sendBytes(res),
    });
    expect(await read(server)).toBe("bytes");
  });

  test("names the resource, and a target that names another one is refused", async () => {
    await using server = await startRawServer({
      stream: (_request, res) => redirectTo("/content", uri)(res),
      get: (_req, res) => sendBytes(res, "x://other"),
    });
    await expect(read(server)).rejects.toMatchObject({ code: "protocol" });
  });

  const download = async (name?: string) => {
    const server: RawServer = await startRawServer({
      stream: (request, res) => replyUrl(res, request, `${server.origin}/download`),
      get: (req, res) =>
        req.url === "/download" ? redirectTo("/content", name)(res) : sendBytes(res),
    });
    return server;
  };

  test("names the resource on the way from a download URL, too", async () => {
    await using server = await download(uri);
    expect(await read(server)).toBe("bytes");
  });

  test.each([undefined, "x://other"])(
    "with the name %s on the way from a download URL leads to no bytes: it may be a sign-in page",
    async (name) => {
      await using server = await download(name);
      await expect(read(server)).rejects.toMatchObject({ code: "protocol" });
    },
  );
});

test("a redirect without the resource's name, or with another one, is refused", async () => {
  for (const name of [undefined, "x://other", "X://FILE", `${uri}, ${uri}`]) {
    await using server = await startRawServer({
      stream(_request, res) {
        res.writeHead(302, { location: "/d", ...(name && { "mcp-resource-uri": name }) }).end();
      },
    });
    await expect(
      streamResource(createRawClient(server.url, withStreaming()), uri),
    ).rejects.toMatchObject({
      code: "protocol",
    });
    expect(server.seen).toHaveLength(1);
  }
});
