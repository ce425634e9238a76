/**
 * What the author of a server registered with an official SDK, streamed without registering it again.
 * @module
 */
import { request as send } from "node:http";
import { buffer } from "node:stream/consumers";
import type { Server as LowServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import {
  McpServer as McpServerV1,
  ResourceTemplate as TemplateV1,
} from "@modelcontextprotocol/sdk/server/mcp.js";
import {
  ListResourcesRequestSchema,
  McpError,
  ReadResourceRequestSchema,
} from "@modelcontextprotocol/sdk/types.js";
import { ResourceTemplate, type McpServer } from "@modelcontextprotocol/server";
import { streamResource } from "@sluice/client";
import type { RevisionKind } from "@sluice/core/internal";
import { describe, expect, test, vi } from "vitest";
import { connect, sdkNames, type SdkName } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { authenticate, kindNames, openOwnSite, principal } from "../bed/own-transports.ts";
import { call } from "../bed/raw.ts";
import { startSite } from "../bed/site.ts";

const photo = bytesOf(300_000, "photo");
const attach = { stream: "registered" } as const;
const eras: readonly RevisionKind[] = ["legacy", "modern"];

/** What the author's handlers give, by URI. */
const contents: Readonly<Record<string, object>> = {
  "app://photo": { mimeType: "image/png", blob: photo.toString("base64") },
  "app://small.json": { mimeType: "application/json", text: "{}" },
  "app://users/7": { mimeType: "text/plain", text: "größer" },
};
const expected: Readonly<Record<string, { type: string; bytes: Buffer }>> = {
  "app://photo": { type: "image/png", bytes: photo },
  "app://users/7": { type: "text/plain", bytes: Buffer.from("größer") },
};

const answer = (uri: string): never => ({ contents: [{ uri, ...contents[uri] }] }) as never;

function author(mcp: McpServer): void {
  mcp.registerResource("photo", "app://photo", {}, (url) => answer(url.href));
  mcp.registerResource("json", "app://small.json", { mimeType: "application/json" }, (url) =>
    answer(url.href),
  );
  const template = new ResourceTemplate("app://users/{id}", { list: undefined });
  mcp.registerResource("user", template, {}, (url) => answer(url.href));
}

describe.each(sdkNames)("a server of SDK v2, streamed to %s", (sdk) => {
  test(
    "resources of its author arrive byte for byte, and are marked in the list",
    { tags: "slow" },
    async () => {
      await using site = await startSite({ files: { "a.txt": "stored" }, author, attach });
      const client = await connect(sdk, site.url);
      for (const [uri, { type, bytes }] of Object.entries(expected)) {
        const stream = await streamResource(client, uri);
        expect([stream.mode, stream.mimeType, stream.size]).toEqual(["direct", type, bytes.length]);
        expect((await buffer(stream.body as never)).equals(bytes)).toBe(true);
      }
      const { resources } = await client.listResources();
      const isMarked = (uri: string) =>
        JSON.stringify(resources.find((each) => each.uri === uri)).includes('"streamable":true');
      expect([isMarked("app://photo"), isMarked("app://small.json")]).toEqual([true, false]);
      await expect(streamResource(client, "app://small.json")).rejects.toMatchObject({
        code: "unsupported",
      });
      await expect(streamResource(client, "app://none")).rejects.toMatchObject({
        code: "not_found",
      });
      const tight = streamResource(client, "app://photo", { maxStreamBytes: 1_000 });
      await expect(tight).rejects.toMatchObject({ code: "too_large" });
      const stored = await streamResource(client, "files://site/a.txt");
      expect((await buffer(stream(stored))).toString()).toBe("stored");
      await client.close();
    },
  );
});

const stream = ({ body }: { readonly body: unknown }): never => body as never;

test.each(eras)("a raw peer gets plain bytes or an error of the protocol (%s)", async (era) => {
  await using site = await startSite({ author, attach });
  const direct = await call(
    site.url,
    "resources/stream",
    { uri: "app://photo" },
    { era, streaming: {} },
  );
  expect(direct.status).toBe(200);
  expect(direct.bytes.equals(photo)).toBe(true);
  expect(direct.headers).toMatchObject({
    "content-type": "image/png",
    "content-length": "300000",
    "content-disposition": 'attachment; filename="photo"',
    "accept-ranges": "none",
    "mcp-resource-uri": "app://photo",
  });
  expect(direct.headers).not.toHaveProperty("link");
  expect(direct.headers).not.toHaveProperty("etag");
  const json = await call(
    site.url,
    "resources/stream",
    { uri: "app://small.json" },
    { era, streaming: {} },
  );
  expect(json.message?.error).toMatchObject({ message: "Stream not supported" });
  const undeclared = await call(site.url, "resources/stream", { uri: "app://photo" }, { era });
  expect(undeclared.message?.error?.data?.reason).toBe("client_capability");
});

const legacy: SdkName[] = sdkNames.filter((name) => name !== "SDK v2, modern");

/** Registers the same with any official server; `read` is called before each answer. */
function registerOn(
  mcp: McpServerV1,
  read: (uri: string, signal: AbortSignal) => Promise<void> = async () => {},
): void {
  type Extra = { signal?: AbortSignal; mcpReq?: { signal: AbortSignal } };
  const give = async (uri: string, extra: unknown): Promise<never> => {
    const { signal, mcpReq } = extra as Extra;
    await read(uri, (signal ?? mcpReq?.signal)!);
    return answer(uri);
  };
  if (!("registerResource" in mcp)) {
    const low = mcp as unknown as LowServerV1;
    low.registerCapabilities({ resources: {} });
    low.setRequestHandler(ListResourcesRequestSchema, () => ({
      resources: [{ uri: "app://photo", name: "photo" }],
    }));
    low.setRequestHandler(ReadResourceRequestSchema, async ({ params: { uri } }, extra) => {
      if (contents[uri]) return give(uri, extra);
      throw new McpError(-32_602, "no such thing");
    });
    return;
  }
  mcp.registerResource("photo", "app://photo", {}, (url, extra) => give(url.href, extra));
  const Template = (
    mcp instanceof McpServerV1 ? TemplateV1 : ResourceTemplate
  ) as typeof TemplateV1;
  mcp.registerResource(
    "user",
    new Template("app://users/{id}", { list: undefined }),
    {},
    (url, _variables, extra) => give(url.href, extra),
  );
}

describe.each(kindNames)("%s with a transport of its app", (kind) => {
  test.each(legacy)("streams what its author registered to %s", async (sdk) => {
    await using site = await openOwnSite({ kind, attach, register: (mcp) => registerOn(mcp) });
    const client = await connect(sdk, site.url);
    for (const [uri, { type, bytes }] of Object.entries(expected)) {
      const opened = await streamResource(client, uri);
      expect([opened.mode, opened.mimeType]).toEqual(["direct", type]);
      expect((await buffer(stream(opened))).equals(bytes)).toBe(true);
    }
    await expect(streamResource(client, "app://none")).rejects.toMatchObject({ code: "not_found" });
    await client.close();
    expect(site.errors).toEqual([]);
  });

  test("the author's handler hears when the client goes away, and its place is free again", async () => {
    let aborts = 0;
    let begun = (): void => {};
    let isSlow = true;
    const register = (mcp: McpServerV1): void =>
      registerOn(mcp, async (_uri, signal) => {
        if (!isSlow) return;
        begun();
        await new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            aborts += 1;
            reject(signal.reason as Error);
          });
        });
      });
    await using site = await openOwnSite({
      kind,
      attach,
      register,
      isStateless: true,
      sluice: { principal, limits: { streams: { perPrincipal: 1 } } },
      node: { authenticate },
    });
    const started = new Promise<void>((resolve) => (begun = resolve));
    const body = JSON.stringify({
      jsonrpc: "2.0",
      id: 1,
      method: "resources/stream",
      params: {
        uri: "app://photo",
        _meta: { "io.modelcontextprotocol/clientCapabilities": { resourceStreaming: {} } },
      },
    });
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      authorization: "Bearer ann",
    };
    const leaving = send(site.url, { method: "POST", headers });
    leaving.on("error", () => {});
    leaving.end(body);
    await started;
    leaving.destroy();
    await vi.waitFor(() => expect(aborts).toBe(1));
    isSlow = false;
    await vi.waitFor(async () => {
      const response = await fetch(site.url, { method: "POST", headers, body });
      expect(Buffer.from(await response.arrayBuffer()).equals(photo)).toBe(true);
    });
  });

  test("the author's handler hears when its call is cancelled in a session", async () => {
    let begun = (): void => {};
    const started = new Promise<void>((resolve) => (begun = resolve));
    let aborted = false;
    const register = (mcp: McpServerV1): void =>
      registerOn(mcp, async (_uri, signal) => {
        begun();
        await new Promise((_resolve, reject) => {
          signal.addEventListener("abort", () => {
            aborted = true;
            reject(signal.reason as Error);
          });
        });
      });
    await using site = await openOwnSite({ kind, attach, register });
    const client = await connect("SDK v1", site.url);
    const leaving = new AbortController();
    const streaming = streamResource(client, "app://photo", { signal: leaving.signal });
    const outcome = streaming.catch((error: unknown) => error);
    await started;
    const { sessionId } = client.transport as unknown as { sessionId: string };
    const headers = {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      "mcp-session-id": sessionId,
      "mcp-protocol-version": "2025-11-25",
    };
    // the ids of the SDK count from 0
    for (const requestId of [0, 1, 2, 3]) {
      const params = { requestId };
      const message = { jsonrpc: "2.0", method: "notifications/cancelled", params };
      await fetch(site.url, { method: "POST", headers, body: JSON.stringify(message) });
    }
    await vi.waitFor(() => expect(aborted).toBe(true));
    leaving.abort();
    expect(await outcome).toBeInstanceOf(Error);
    await client.close();
    expect(site.errors).toEqual([]);
  });
});
