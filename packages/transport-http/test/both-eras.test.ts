import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { post, streaming } from "./call.ts";
import { serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const bytes = Uint8Array.from({ length: 70_000 }, (_, at) => at % 251);
const storage = () => createMemoryBackend({ "a.bin": bytes, "note.txt": "hello" });
const received = async (response: Response) => Buffer.from(await response.arrayBuffer());

describe.each(["legacy", "modern"] as const)("%s revision", (era) => {
  test("direct: the POST is answered with the bytes, and its Link goes on where they stopped", async () => {
    const { url, records } = await serve({ sluice: { storage: storage() } });
    const response = await post(url, era, uri);
    expect(response.status).toBe(200);
    expect(response.headers.get("mcp-resource-uri")).toBe(uri);
    expect(response.headers.get("content-length")).toBe("70000");
    expect(Buffer.compare(await received(response), bytes)).toBe(0);
    const link = /^<(.+)>; rel="stream"$/.exec(response.headers.get("link")!)![1]!;
    const headers = { range: "bytes=69990-", "if-range": response.headers.get("etag")! };
    const rest = await fetch(link, { headers });
    expect([rest.status, rest.headers.get("content-range")]).toEqual([
      206,
      "bytes 69990-69999/70000",
    ]);
    expect(Buffer.compare(await received(rest), bytes.subarray(69_990))).toBe(0);
    await expect
      .poll(() => records.map(({ outcome }) => outcome))
      .toEqual(["complete", "complete"]);
  });

  test("download URL: JSON first, bytes behind it", async () => {
    const { url, records } = await serve({
      sluice: { storage: storage(), delivery: "downloadUrl" },
    });
    const response = await post(url, era, uri);
    expect(response.headers.get("content-type")).toContain("application/json");
    const { result } = (await response.json()) as { result: { downloadUrl: string } };
    const head = await fetch(result.downloadUrl, { method: "HEAD" });
    expect([head.status, head.headers.get("content-length")]).toEqual([200, "70000"]);
    expect(Buffer.compare(await received(await fetch(result.downloadUrl)), bytes)).toBe(0);
    await expect
      .poll(() => records.map(({ outcome }) => outcome))
      .toEqual(["issued", "complete", "complete"]);
  });

  test("redirect: 302 with an empty body, for the client to follow by itself", async () => {
    const signed = "https://store.example.com/a.bin?signature=x";
    const presigning: StorageBackend = {
      ...storage(),
      presign: async () => ({ url: signed, expiresAt: Date.now() }),
    };
    const { url } = await serve({
      sluice: { storage: presigning, redirectOrigins: ["https://store.example.com"] },
    });
    const response = await post(url, era, uri);
    expect([response.status, response.headers.get("location")]).toEqual([302, signed]);
    expect(response.headers.get("mcp-resource-uri")).toBe(uri);
    expect(await response.text()).toBe("");
  });

  test("errors have the numbers of their revision, also where the SDK would change them", async () => {
    const { url } = await serve({ sluice: { storage: storage() } });
    const gone = await post(url, era, "files://demo/gone");
    expect(gone.status).toBe(200);
    expect(await gone.json()).toMatchObject({
      jsonrpc: "2.0",
      id: 1,
      error: { code: era === "modern" ? -32602 : -32002, data: { reason: "not_found" } },
    });
    const denied = await serve({ sluice: { storage: storage(), access: () => "deny" } });
    const refused = await post(denied.url, era, uri);
    expect([refused.status, refused.headers.get("www-authenticate")]).toEqual([403, "Bearer"]);
  });

  test("a client that declared nothing never gets bytes or a 3xx, whatever the server prefers", async () => {
    for (const delivery of ["auto", "direct", "redirect", "downloadUrl"] as const) {
      const { url } = await serve({ sluice: { storage: storage(), delivery } });
      const response = await post(url, era, uri, { capabilities: {} });
      expect(response.status).toBe(era === "modern" ? 400 : 200);
      expect(response.headers.get("mcp-resource-uri")).toBeNull();
      expect(await response.json()).toMatchObject({
        error: { data: { reason: "client_capability" } },
      });
    }
  });

  test("resources/stream is answered whatever the client accepts beside JSON, and not where it takes none", async () => {
    const { url } = await serve({ sluice: { storage: storage() } });
    const asked = async (accept: string, target: string): Promise<unknown> => {
      const response = await post(url, era, target, { headers: { accept } });
      const { error } = response.headers.has("mcp-resource-uri")
        ? { error: undefined }
        : ((await response.json()) as { error?: { data?: { reason?: string } } });
      await response.body?.cancel().catch(() => {});
      return error ? (error.data?.reason ?? response.status) : response.status;
    };
    // the first is that of SEP-2532
    for (const accept of [
      "application/json, */*",
      "application/json, application/pdf",
      "*/*",
      "application/*",
    ]) {
      expect([accept, await asked(accept, uri)]).toEqual([accept, 200]);
      expect([accept, await asked(accept, "files://demo/gone")]).toEqual([accept, "not_found"]);
    }
    expect(await asked("text/html", uri)).toBe(era === "modern" ? 200 : 406);
  });

  test("a call with broken params is the SDK's to refuse", async () => {
    const { url } = await serve({ sluice: { storage: storage() } });
    const response = await post(url, era, 5 as never, { headers: { "mcp-name": "5" } });
    expect(await response.json()).toMatchObject({ error: { code: expect.any(Number) } });
    expect(response.headers.get("mcp-resource-uri")).toBeNull();
  });

  test("an official client lists, reads and calls as before", async () => {
    const { url } = await serve({
      sluice: { storage: storage() },
      register: (mcp) => {
        mcp.registerResource("own", "own://one", {}, (own) => ({
          contents: [{ uri: own.href, text: "own" }],
        }));
        mcp.registerTool("greet", {}, () => ({ content: [{ type: "text", text: "hi" }] }));
      },
    });
    const mode = era === "modern" ? "auto" : "legacy";
    const client = new Client({ name: "official", version: "1" }, { versionNegotiation: { mode } });
    await client.connect(new StreamableHTTPClientTransport(new URL(url)));
    expect(client.getNegotiatedProtocolVersion()! >= "2026").toBe(era === "modern");
    const { resources } = await client.listResources();
    expect(resources.map((resource) => resource.uri)).toEqual([
      "own://one",
      uri,
      "files://demo/note.txt",
    ]);
    const { resourceTemplates } = await client.listResourceTemplates();
    expect(resourceTemplates).toMatchObject([{ uriTemplate: "files://demo/{+key}" }]);
    const { contents } = await client.readResource({ uri: "files://demo/note.txt" });
    expect(contents).toMatchObject([{ text: "hello", mimeType: "text/plain" }]);
    expect((await client.readResource({ uri: "own://one" })).contents).toMatchObject([
      { text: "own" },
    ]);
    await expect(client.readResource({ uri: "files://demo/gone" })).rejects.toMatchObject({
      data: { reason: "not_found" },
    });
    expect((await client.callTool({ name: "greet" })).content).toMatchObject([{ text: "hi" }]);
    await client.close();
  });
});

test("a batch has no response to replace, and gets a download URL", async () => {
  const { url } = await serve({ sluice: { storage: storage(), delivery: "direct" } });
  const call = { jsonrpc: "2.0", id: 1, method: "resources/stream" };
  const _meta = { "io.modelcontextprotocol/clientCapabilities": streaming() };
  const response = await fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-protocol-version": "2025-03-26",
    },
    body: JSON.stringify([{ ...call, params: { uri, _meta } }]),
  });
  expect(response.headers.get("mcp-resource-uri")).toBeNull();
  expect(await response.text()).toContain("/streams/v1.");
});

test(
  "each of several principals gets its own bytes and no other's, all at the same time",
  { tags: "slow" },
  async () => {
    const people = Array.from({ length: 40 }, (_, at) => `user-${at}`);
    const stores = new Map(
      people.map((name) => [name, createMemoryBackend({ "a.bin": name.repeat(1_000) })]),
    );
    const { url } = await serve({
      sluice: {
        principal: ({ header }) => ({
          issuer: "test",
          subject: header("authorization") ?? "",
          clientId: "c",
        }),
        storage: (principal) => stores.get(principal?.subject ?? "")!,
        limits: { streams: { perProcess: 1_000 } },
      },
    });
    const bodies = people.map(async (authorization, at) => {
      const prefer = at % 2 ? ["direct"] : ["downloadUrl"];
      const era = at % 4 > 1 ? "legacy" : "modern";
      const options = { headers: { authorization }, capabilities: streaming({ prefer }) };
      let response = await post(url, era, uri, options);
      if (response.headers.get("mcp-resource-uri") === null) {
        const { result } = (await response.json()) as { result: { downloadUrl: string } };
        response = await fetch(result.downloadUrl, { headers: { authorization } });
      }
      return (await response.text()) === authorization.repeat(1_000);
    });
    expect(await Promise.all(bodies)).toEqual(people.map(() => true));
  },
);

test("a legacy server without sessions answers with JSON: its client may have declared in an initialize", async () => {
  for (const delivery of ["auto", "direct", "redirect", "downloadUrl"] as const) {
    const { url } = await serve({ sluice: { storage: storage(), delivery } });
    const response = await post(url, "legacy", uri, { capabilities: null });
    expect([response.status, response.headers.get("mcp-resource-uri")]).toEqual([200, null]);
    expect(await response.json()).toMatchObject({
      result: { uri, downloadUrl: expect.stringContaining(url) },
    });
  }
});
