import type { Client, Notification, Transport } from "@modelcontextprotocol/client";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { z } from "zod";
import { bridgedTo, createHost } from "./bridged.ts";
import { startHostsTo, transportTo } from "./hosting.ts";
import { hung, startLegacyPeer, startModernPeer, type Peer } from "./peers.ts";

const servers = { legacy: startLegacyPeer, modern: startModernPeer } as const;
const kinds = ["legacy", "modern"] as const;
/** How a host reaches its bridge. */
const ways: Readonly<Record<string, (url: URL) => Promise<Transport>>> = {
  stdio: async (url) => bridgedTo(url, {}, afterAll).transport,
  HTTP: async (url) => transportTo(await startHostsTo(url, {}, afterAll)),
};
const pairs = Object.keys(ways).flatMap((way) =>
  kinds.flatMap((host) => kinds.map((server) => ({ way, host, server }))),
);

function textOf(result: unknown): unknown {
  const [block] = (result as { content: { text: string }[] }).content;
  return JSON.parse(block!.text);
}

const isHang = (params: unknown): boolean =>
  (params as { readonly name?: unknown } | undefined)?.name === "hang";

describe.each(pairs)("over $way, a $host host of a $server server", ({ way, host, server }) => {
  let peer: Peer;
  let client: Client;
  beforeAll(async () => {
    peer = await servers[server](0, afterAll);
    client = createHost(host);
    await client.connect(await ways[way]!(peer.url));
  });

  test("knows the server's name and capabilities", () => {
    expect(client.getServerVersion()).toMatchObject({ name: "peer", version: "1.0.0" });
    expect(client.getServerCapabilities()).toMatchObject({
      tools: { listChanged: true },
      resources: { subscribe: true, listChanged: true },
      logging: {},
    });
  });

  test("calls tools, reads resources, gets prompts and completions", async () => {
    expect((await client.listTools()).tools.map(({ name }) => name)).toContain("echo");
    const echoed = await client.callTool({
      name: "echo",
      arguments: { a: 1 },
      _meta: { "example.com/kept": true },
    });
    expect(textOf(echoed)).toMatchObject({
      name: "echo",
      arguments: { a: 1 },
      _meta: { "example.com/kept": true },
    });
    expect((await client.listResources()).resources).toHaveLength(1);
    const { contents } = await client.readResource({ uri: "test://a" });
    expect(contents[0]).toMatchObject({ uri: "test://a", text: "content" });
    const { messages } = await client.getPrompt({ name: "p" });
    expect(messages[0]!.content).toMatchObject({ text: "p" });
    const { completion } = await client.complete({
      ref: { type: "ref/prompt", name: "p" },
      argument: { name: "x", value: "v" },
    });
    expect(completion.values).toEqual(["v!"]);
  });

  test("answers what the server asks during a call", async () => {
    const ask = async (name: string): Promise<unknown> => textOf(await client.callTool({ name }));
    expect(await ask("ask")).toEqual({ action: "accept", content: { name: "Ada" } });
    expect(await ask("sample")).toMatchObject({ content: { text: "sampled" } });
    expect(await ask("roots")).toEqual({ roots: [{ uri: "file:///home" }] });
    // several at once, each with its own answer
    const answers = await Promise.all(["ask", "roots", "ask", "sample"].map(ask));
    expect(answers).toMatchObject([
      { action: "accept" },
      { roots: [{}] },
      { action: "accept" },
      { role: "assistant" },
    ]);
  });

  test("hears of progress, and the server of a cancellation", async () => {
    const progress: number[] = [];
    const onprogress = (update: { progress: number }): void => void progress.push(update.progress);
    await client.callTool({ name: "progress" }, { onprogress });
    expect(progress).toEqual([1, 2]);

    const before = hung.ended;
    const abort = new AbortController();
    const call = client.callTool({ name: "hang" }, { signal: abort.signal });
    await expect.poll(() => peer.received.filter(({ params }) => isHang(params)).length).toBe(1);
    abort.abort("enough");
    await expect(call).rejects.toThrow(/enough/);
    await expect.poll(() => hung.ended).toBe(before + 1);
    // nothing else ended with it
    expect(textOf(await client.callTool({ name: "echo" }))).toMatchObject({ name: "echo" });
  });

  test("hears of changes that it asked for", async () => {
    const heard: string[] = [];
    client.fallbackNotificationHandler = (notification: Notification) => {
      heard.push(notification.method);
      return Promise.resolve();
    };
    if (host === "legacy") await client.subscribeResource({ uri: "test://a" });
    else {
      await client.listen({ resourceSubscriptions: ["test://a"], toolsListChanged: true });
    }
    await expect
      .poll(() => {
        peer.change("test://a");
        return heard;
      })
      .toEqual(
        expect.arrayContaining([
          "notifications/resources/updated",
          "notifications/tools/list_changed",
        ]),
      );
  });

  test("gets the log at the level it asked for", async () => {
    const heard: unknown[] = [];
    client.setNotificationHandler(
      "notifications/message",
      ({ params }) => void heard.push(params.data),
    );
    if (host === "legacy") await client.setLoggingLevel("info");
    const _meta = host === "legacy" ? {} : { "io.modelcontextprotocol/logLevel": "info" };
    await client.callTool({ name: "log", _meta });
    await expect.poll(() => heard).toEqual(["logged"]);
  });

  test("hears of a method that the server does not have", async () => {
    const asked = client.request({ method: "example/unknown", params: {} }, z.looseObject({}));
    await expect(asked).rejects.toThrow(/not found|unknown|not supported/i);
  });
});

test("output that is not an object reaches older hosts wrapped in one", async () => {
  const peer = await startModernPeer();
  const client = createHost("legacy");
  await client.connect(bridgedTo(peer.url).transport);
  const { tools } = await client.listTools();
  expect(tools.find(({ name }) => name === "numbers")?.outputSchema).toMatchObject({
    type: "object",
    properties: { result: { type: "array" } },
  });
  expect(await client.callTool({ name: "numbers" })).toMatchObject({
    structuredContent: { result: [1, 2] },
    content: [{ type: "text", text: "[1,2]" }],
  });
});

test("arguments that a tool marks for gateways are repeated in headers", async () => {
  const peer = await startModernPeer();
  const client = createHost("modern");
  await client.connect(bridgedTo(peer.url).transport);
  await client.listTools();
  await client.callTool({ name: "annotated", arguments: { region: "Zürich" } });
  expect(peer.headers.at(-1)).toMatchObject({
    "mcp-param-region": `=?base64?${Buffer.from("Zürich").toString("base64")}?=`,
    "mcp-method": "tools/call",
    "mcp-name": "annotated",
  });
});
