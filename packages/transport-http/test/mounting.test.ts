import { createServer } from "node:http";
import express from "express";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { toNodeHandler } from "@sluice/transport-http/node";
import { post, streaming } from "./call.ts";
import { listen, serve, type ServeOptions } from "./serve.ts";

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": "0123456789" });

const mounts: Record<string, NonNullable<ServeOptions["mount"]>> = {
  "plain node:http": (handler) => handler,
  "express app.all": (handler) => express().all("/mcp{/*rest}", handler),
  "express app.use": (handler) => express().use("/mcp", handler),
  "express.json in front": (handler) => express().use(express.json()).all("/mcp{/*rest}", handler),
  "express.raw in front": (handler) =>
    express()
      .use(express.raw({ type: () => true }))
      .use("/mcp", handler),
  "a router at /": (handler) => express().use(express.Router().use(handler)),
};

describe.each(Object.entries(mounts))("mounted as %s", (_name, mount) => {
  test.each(["legacy", "modern"] as const)("both routes work in the %s revision", async (era) => {
    const { url, errors } = await serve({ sluice: { storage }, mount });
    const direct = await post(url, era, uri);
    expect([direct.headers.get("mcp-resource-uri"), await direct.text()]).toEqual([
      uri,
      "0123456789",
    ]);
    const json = await post(url, era, uri, {
      capabilities: streaming({ prefer: ["downloadUrl"] }),
    });
    const { result } = (await json.json()) as { result: { downloadUrl: string } };
    const download = await fetch(result.downloadUrl, { headers: { range: "bytes=3-" } });
    expect([download.status, await download.text()]).toEqual([206, "3456789"]);
    expect(download.headers.get("x-powered-by")).toBeNull();
    const unknown = await fetch(`${url}/streams/nothing`);
    expect([unknown.status, unknown.headers.get("content-type")]).toEqual([
      404,
      "application/problem+json",
    ]);
    expect(errors).toEqual([]);
  });
});

test("middleware that found no token and says so with null has verified none", async () => {
  const handler = toNodeHandler({
    fetch: async (_request, options) => Response.json(Object.keys(options ?? {})),
  });
  const server = createServer((req, res) =>
    handler(Object.assign(req, { auth: null }) as never, res),
  );
  const response = await fetch(await listen(server), { method: "POST", body: "{}" });
  expect(await response.json()).not.toContain("authInfo");
});

test("middleware that verified a token is where the caller's identity comes from", async () => {
  const { url } = await serve({
    sluice: {
      storage,
      principal: ({ authInfo }) =>
        authInfo && {
          issuer: "i",
          subject: String(authInfo.extra?.["sub"]),
          clientId: authInfo.clientId,
        },
    },
    mount: (handler) =>
      express().all("/mcp{/*rest}", (req, res) => {
        const sub = req.headers.authorization;
        const auth = { token: `${sub}`, clientId: "app", scopes: [], extra: { sub } };
        handler(Object.assign(req, sub === undefined ? {} : { auth }), res);
      }),
  });
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  expect((await post(url, "modern", uri, { capabilities })).status).toBe(401);
  const json = await post(url, "modern", uri, {
    capabilities,
    headers: { authorization: "alice" },
  });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  const status = async (headers: Record<string, string>) =>
    (await fetch(result.downloadUrl, { headers })).status;
  expect(await status({ authorization: "alice" })).toBe(200);
  expect(await status({ authorization: "bob" })).toBe(404);
  expect(await status({})).toBe(401);
});

test("a handler without Node, as on Workers, serves both routes", async () => {
  const { handler, url, records } = await serve({ sluice: { storage } });
  const call = (era: "legacy" | "modern") =>
    post(url, era, uri, { capabilities: streaming() }, (input, init) =>
      handler.fetch(new Request(input, init)),
    );
  for (const era of ["legacy", "modern"] as const) {
    const direct = await call(era);
    const link = /^<(.+)>/.exec(direct.headers.get("link")!)![1]!;
    expect(await direct.text()).toBe("0123456789");
    expect(await (await handler.fetch(new Request(link))).text()).toBe("0123456789");
  }
  expect(records.map(({ outcome, bytes }) => [outcome, bytes])).toEqual(
    Array.from({ length: 4 }, () => ["complete", 10]),
  );
});

test("a path that a proxy rewrites is configuration, and forwarded headers are not believed", async () => {
  const { url, handler } = await serve({ sluice: { storage }, http: { path: "/inner" } });
  const forged = {
    "x-forwarded-host": "evil.example.com",
    "x-forwarded-proto": "https",
    forwarded: "host=evil.example.com",
  };
  const json = await post(url.replace("/mcp", "/inner"), "modern", uri, {
    capabilities: streaming({ prefer: ["downloadUrl"] }),
    headers: forged,
  });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  expect((await post(url, "modern", uri)).status).toBe(404);
  expect(result.downloadUrl.startsWith(`${url}/streams/`)).toBe(true);
  const inner = result.downloadUrl.replace("/mcp/", "/inner/");
  expect(await (await handler.fetch(new Request(inner))).text()).toBe("0123456789");
});
