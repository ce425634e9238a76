import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { noteRequest, notesOf } from "@sluice/server/internal";
import { createMemoryBackend } from "@sluice/storage";
import { createHandler, type McpFetchHandler, type Routes } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { expect, test } from "vitest";
import { createResume } from "../../resume/src/index.ts";
import { post } from "./call.ts";

const url = "http://127.0.0.1:1/mcp";
const page = "https://app.example.com";

function build() {
  const sluice = createSluice({
    endpoint: url,
    keys: "ephemeral",
    baseUri: "files://demo/",
    storage: createMemoryBackend({ "a.bin": "0123456789" }),
    onWarning: () => {},
  });
  const mcp = createMcpHandler(() =>
    sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
  );
  const uploads = {
    host: {
      sluice: sluice.host,
      routes(base: string): Routes {
        const answer = async () => ({ status: 200, headers: [], text: "slot" });
        return (path) =>
          path === `${base}/uploads/a` ? { kind: "slot", credential: "url", answer } : undefined;
      },
    },
    async close() {},
  };
  return { sluice, mcp, uploads };
}

const ask = (path: string, init: RequestInit = {}): Request =>
  new Request(new URL(path, url), init);

const list = (headers: Record<string, string> = {}): Request =>
  ask("/mcp", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-11-25",
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/list", params: {} }),
  });

test("the parts are nested in one order, however they are named", async () => {
  const { sluice, mcp, uploads } = build();
  const order: string[] = [];
  const resume = createResume();
  const handler = createHandler({
    uploads: {
      ...uploads,
      host: {
        ...uploads.host,
        routes(base) {
          order.push(`uploads around a handler with ${base}`);
          return uploads.host.routes(base);
        },
      },
    },
    binary: {},
    resume: {
      ...resume,
      wrap(inner, given, endpoint) {
        order.push(
          `resume around mcp: ${inner === mcp && given === sluice}, ${endpoint.origins?.join()}`,
        );
        return resume.wrap(inner, given, endpoint);
      },
    },
    origins: [page],
    sluice,
    behind: mcp,
  });
  expect(order).toEqual([`resume around mcp: true, ${page}`, "uploads around a handler with /mcp"]);
  expect(await (await handler.fetch(ask("/mcp/uploads/a"))).text()).toBe("slot");
  const listed = await handler.fetch(list({ origin: page }));
  expect(listed.headers.get("access-control-allow-origin")).toBe(page);
  expect(await listed.text()).toContain("a.bin");
  // one gate for all layers
  for (const path of ["/mcp/uploads/a", "/mcp/streams/x", "/mcp/resume/x"])
    expect((await handler.fetch(ask(path, { headers: { origin: "https://x.test" } }))).status).toBe(
      403,
    );
  await resume.close();
});

test("binary adds the layer for bytes beside JSON, which refuses bytes that no client declared", async () => {
  const { sluice } = build();
  const own: McpFetchHandler = { fetch: async () => new Response("own") };
  const withBytes = createHandler({ behind: own, sluice, binary: {} });
  expect((await withBytes.fetch(multipart())).status).toBe(415);
  expect(await (await createHandler({ behind: own, sluice }).fetch(multipart())).text()).toBe(
    "own",
  );
});

function multipart(): Request {
  const call = JSON.stringify({ jsonrpc: "2.0", id: 1, method: "tools/call", params: {} });
  return ask("/mcp", {
    method: "POST",
    headers: { "content-type": "multipart/mixed; boundary=b", accept: "*/*" },
    body: `--b\r\nContent-Type: application/json\r\n\r\n${call}\r\n--b--\r\n`,
  });
}

test("without mcp it serves the routes beside the endpoint alone", async () => {
  const { sluice, uploads } = build();
  const handler = createHandler({ sluice, uploads, path: "/files" });
  expect((await handler.fetch(list())).status).toBe(404);
  expect(await (await handler.fetch(ask("/files/uploads/a"))).text()).toBe("slot");
  const { status } = await handler.fetch(ask("/files/streams/no-token"));
  expect([404, 410]).toContain(status);
});

test("resume and binary without JSON-RPC are a mistake that is told at once", () => {
  const { sluice } = build();
  const resume = createResume();
  for (const parts of [{ binary: {} }, { resume }, { resume, behind: "app" as const }])
    expect(() => createHandler({ sluice, ...parts })).toThrow(/^createHandler: resume and/);
});

test("close ends sessions, streams and uploads, and then the Sluice", async () => {
  const { sluice, uploads } = build();
  const ended: string[] = [];
  const note = (what: string) => async () => void ended.push(what);
  const resume = {
    ...createResume(),
    close: note("resume"),
  };
  const handler = createHandler({
    sluice: { ...sluice, close: note("sluice") },
    create: () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
    resume,
    uploads: { ...uploads, close: note("uploads") },
  });
  await handler.close();
  expect(ended).toEqual(["resume", "uploads", "sluice"]);
});

test("a refusal of a layer is the same as in layers nested by hand", () => {
  const { sluice, mcp } = build();
  const wrong = { path: "/a//b" };
  expect(() => createHandler({ behind: mcp, sluice, ...wrong })).toThrow(
    expect.objectContaining({ message: messageOf(() => withSluice(mcp, sluice, wrong)) }),
  );
});

function messageOf(call: () => unknown): string | undefined {
  try {
    call();
  } catch (error) {
    return (error as Error).message;
  }
  return undefined;
}

test("a copy that a layer of the author hands on takes the place of its request", async () => {
  const { sluice, uploads } = build();
  const seen: (string | null)[] = [];
  const mcp: McpFetchHandler = {
    async fetch({ headers }) {
      seen.push(headers.get("x-tenant"));
      return new Response(null, { status: 202 });
    },
  };
  const handler = createHandler({ sluice, behind: mcp, uploads });
  for (const isNoted of [false, true]) {
    const request = list();
    noteRequest(request, { address: "192.0.2.1" });
    const headers = new Headers(request.headers);
    headers.set("x-tenant", String(isNoted));
    const copy = new Request(request, { headers });
    if (isNoted) noteRequest(copy, notesOf(request));
    await handler.fetch(copy);
  }
  expect(seen).toEqual(["false", "true"]);
});

test.each([false, {}] as const)(
  "a server that cannot be made is reported, with sessions: %j",
  async (sessions) => {
    const { sluice } = build();
    const errors: unknown[] = [];
    const host = { ...sluice.host, onError: (error: unknown) => void errors.push(error) };
    const broken = new Error("no database");
    const handler = createHandler({
      sluice: { ...sluice, host },
      create: () => Promise.reject(broken),
      sessions,
    });
    const response = await post(
      url,
      "modern",
      "files://demo/a.bin",
      { method: "resources/read" },
      (to, init) => handler.fetch(new Request(to, init)),
    );
    expect([response.status, errors]).toEqual([500, [broken]]);
  },
);
