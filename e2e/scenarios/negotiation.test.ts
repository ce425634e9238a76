import { createServer } from "node:http";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { streamResource } from "@sluice/client";
import { toNodeHandler } from "@sluice/transport-http/node";
import { EXTENSION_ID } from "@sluice/core/internal";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { connect, connectOfficial, sdkNames } from "../bed/clients.ts";
import { listen } from "../bed/listen.ts";
import { bytesOf } from "../bed/content.ts";
import { call, type RawOptions } from "../bed/raw.ts";
import { createSigningStore, type SigningStore } from "../bed/signing-store.ts";
import { startSite, type Site, type SiteOptions } from "../bed/site.ts";

const anything = z.looseObject({});
const uri = "files://site/report.pdf";
const eras = ["legacy", "modern"] as const;
const modes = ["direct", "redirect", "downloadUrl"] as const;

let site: Site;
let sessions: Site;
let store: SigningStore | undefined;
let mode: (typeof modes)[number] = "direct";

beforeAll(async () => {
  const options: SiteOptions = {
    files: { "report.pdf": bytesOf(200_000, "report") },
    storage: async (files) => (store ??= await createSigningStore(files)).backend,
    sluice: () => ({ delivery: () => mode, redirectOrigins: [store!.origin] }),
  };
  site = await startSite(options);
  sessions = await startSite({ ...options, sessions: true });
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await sessions[Symbol.asyncDispose]();
  await store?.close();
});

/** What a server says of itself when a client begins with it. */
async function declared(url: string, era: (typeof eras)[number]) {
  const initialize = {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "raw", version: "1.0.0" },
  };
  const { message } =
    era === "modern"
      ? await call(url, "server/discover", {})
      : await call(url, "initialize", initialize, { era });
  return message?.result?.["capabilities"] as {
    readonly resources?: object;
    readonly completions?: object;
    readonly extensions?: object;
  };
}

test.each([
  ["modern", "without sessions", () => site],
  ["legacy", "without sessions", () => site],
  ["legacy", "with sessions", () => sessions],
] as const)(
  "a %s client hears of resources.stream as it begins, and of the same as an extension, from a server %s [SEP-2532/1.capability/must-declare-stream] [MCP/resources/must-declare] [MCP/completion/must-declare]",
  async (era, _, server) => {
    expect(await declared(server().url, era)).toMatchObject({
      resources: { stream: true },
      completions: {},
      extensions: { [EXTENSION_ID]: {} },
    });
  },
);

test.each([
  [{ stream: true, subscribe: true, listChanged: true }, true, { subscribe: true }, undefined],
  [{ stream: true, listChanged: true }, false, {}, undefined],
  [{ subscribe: true, listChanged: true }, true, {}, { stream: false }],
] as const)(
  "a server declares %o, whatever else it declares [SEP-2532/1.capability/may-combine]",
  async (expected, hasSessions, authors, attach) => {
    await using server = await startSite({
      sessions: hasSessions,
      author: (mcp) => mcp.server.registerCapabilities({ resources: authors }),
      ...(attach && { attach }),
    });
    expect((await declared(server.url, "legacy")).resources).toEqual(expected);
  },
);

describe.each(eras)("in the %s era", (era) => {
  test.each(modes)(
    "a client that declared nothing gets an error and neither bytes nor a redirect, %s [SEP-2532/1.capability/must-not-answer-undeclared]",
    async (delivery) => {
      mode = delivery;
      const { status, headers, message } = await call(
        site.url,
        "resources/stream",
        { uri },
        { era },
      );
      expect(status).toBe(era === "modern" ? 400 : 200);
      expect(headers["content-type"]).toMatch(/^(application\/json|text\/event-stream)/);
      expect(message?.error).toMatchObject({
        code: era === "modern" ? -32021 : -32600,
        data: { reason: "client_capability" },
      });
    },
  );

  test("either spelling of the declaration is enough", async () => {
    mode = "direct";
    const spellings: Record<string, unknown>[] = [
      { resourceStreaming: {} },
      { extensions: { [EXTENSION_ID]: {} } },
    ];
    for (const capabilities of spellings) {
      const options: RawOptions = { era, capabilities };
      const { headers } = await call(site.url, "resources/stream", { uri }, options);
      expect(headers["mcp-resource-uri"]).toBe(uri);
    }
  });

  test("a declaration of nonsense is no declaration", async () => {
    for (const resourceStreaming of [null, true, "yes", 1, []]) {
      const options: RawOptions = { era, capabilities: { resourceStreaming } };
      const { message } = await call(site.url, "resources/stream", { uri }, options);
      expect(message?.error?.data?.reason).toBe("client_capability");
    }
  });

  test("a resource above the client's maxStreamSize is an error, at the limit it is not [SEP-2532/1.capability/should-respect-max-size]", async () => {
    for (const delivery of modes) {
      mode = delivery;
      const over = { era, streaming: { maxStreamSize: 199_999 } };
      const { message } = await call(site.url, "resources/stream", { uri }, over);
      expect(message?.error).toMatchObject({
        code: era === "modern" ? -25324 : -32004,
        data: { reason: "too_large" },
      });
      const enough = { era, streaming: { maxStreamSize: 200_000 } };
      const answer = await call(site.url, "resources/stream", { uri }, enough);
      expect(answer.message?.error).toBeUndefined();
    }
  });

  test("every other method answers JSON or SSE, also to a client that streams [SEP-2532/4.http/must-json-or-sse]", async () => {
    mode = "direct";
    const calls: [string, Record<string, unknown>][] = [
      ["resources/list", {}],
      ["resources/read", { uri }],
      ["resources/templates/list", {}],
      ["resources/nonsense", { uri }],
    ];
    for (const [method, params] of calls) {
      const options = { era, streaming: {}, headers: { "mcp-name": uri } };
      const { headers, message } = await call(site.url, method, params, options);
      expect(headers["content-type"]).toMatch(/^(application\/json|text\/event-stream)/);
      expect(message).toBeDefined();
    }
  });
});

test("listed resources and templates say that they are streamable [SEP-2532/plan/streamable-field] [SEP-2532/2.metadata/may-mark-resource] [SEP-2532/2.metadata/should-mark-preferred] [SEP-2532/5.templates/may-mark-template]", async () => {
  const resources = await call(site.url, "resources/list", {});
  expect(resources.message?.result?.["resources"]).toMatchObject([
    { uri, streamable: true, size: 200_000, _meta: { [EXTENSION_ID]: { streamable: true } } },
  ]);
  const templates = await call(site.url, "resources/templates/list", {});
  expect(templates.message?.result?.["resourceTemplates"]).toMatchObject([
    { streamable: true, _meta: { [EXTENSION_ID]: { streamable: true } } },
  ]);
});

describe.each(sdkNames)("%s as its SDK ships it", (sdk) => {
  const isModern = sdk === "SDK v2, modern";
  const kinds = modes.flatMap((delivery) => [
    ...(isModern ? [{ delivery, server: "a stateless server" }] : []),
    { delivery, server: "a server with sessions" },
  ]);
  test.each(kinds)(
    "gets an error for resources/stream from $server, $delivery, and never a body to swallow [SEP-2532/1.capability/must-not-answer-undeclared]",
    async ({ delivery, server }) => {
      mode = delivery;
      const seen: [status: number, type: string | null][] = [];
      const { url } = server === "a stateless server" ? site : sessions;
      const client = await connectOfficial(sdk, url, {
        fetch: async (input, init) => {
          const response = await fetch(input, { ...init, redirect: "manual" });
          seen.push([response.status, response.headers.get("content-type")]);
          return response;
        },
      });
      const before = seen.length;
      await expect(
        client.request({ method: "resources/stream", params: { uri } }, anything),
      ).rejects.toThrow(/resourceStreaming/);
      await client.close();
      expect(seen.length).toBeGreaterThan(before);
      expect(seen.filter(([status]) => status >= 300 && status < 400)).toEqual([]);
      for (const [, type] of seen.filter(([status]) => status === 200))
        expect(type).toMatch(/^(application\/json|text\/event-stream)/);
    },
  );

  test.each(isModern ? [] : modes)(
    "gets JSON alone from a stateless server, which cannot know what it declared, %s",
    async (delivery) => {
      mode = delivery;
      const types = new Set<string | null>();
      const client = await connectOfficial(sdk, site.url, {
        fetch: async (input, init) => {
          const response = await fetch(input, { ...init, redirect: "manual" });
          if (response.status !== 202 && response.ok)
            types.add(response.headers.get("content-type"));
          return response;
        },
      });
      const params = { method: "resources/stream", params: { uri } };
      expect(await client.request(params, anything)).toHaveProperty("downloadUrl");
      await client.close();
      for (const type of types) expect(type).toMatch(/^(application\/json|text\/event-stream)/);
    },
  );

  test("lists and reads as ever", async () => {
    const client = await connectOfficial(sdk, site.url);
    const { resources } = await client.listResources();
    expect(resources).toMatchObject([{ uri, name: "report.pdf" }]);
    const { contents } = await client.readResource({ uri });
    expect(contents).toEqual([
      expect.objectContaining({ blob: bytesOf(200_000, "report").toString("base64") }),
    ]);
    await client.close();
  });
});

describe.each(sdkNames)("%s with Sluice", (sdk) => {
  test("reports at a server without it that streaming is unsupported, and what to do instead", async () => {
    const plain = createMcpHandler(() => {
      const mcp = new McpServer({ name: "plain", version: "1.0.0" });
      mcp.registerResource("a", "app://a", {}, () => ({
        contents: [{ uri: "app://a", text: "a" }],
      }));
      return mcp;
    });
    const handle = toNodeHandler(plain);
    const server = await listen(createServer((request, response) => handle(request, response)));
    const client = await connect(sdk, `${server.origin}/mcp`);
    await expect(streamResource(client, "app://a")).rejects.toMatchObject({
      name: "SluiceError",
      code: "unsupported",
      message: expect.stringContaining("resources/read"),
    });
    await client.close();
    await server.close();
  });

  test("but without the middleware on its transport: a named error, and no bytes sent", async () => {
    mode = "direct";
    const client = await connectOfficial(sdk, site.url);
    await expect(streamResource(client, uri)).rejects.toMatchObject({ name: "SluiceError" });
    await client.close();
  });
});
