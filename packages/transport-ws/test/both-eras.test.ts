import { readFile, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { streamResource } from "@sluice/client";
import { WebSocket } from "ws";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { connect, sdkNames } from "./connect.ts";
import { initialize, rawSocket } from "./raw-socket.ts";
import { bearer, bytes, principal, serve, uri } from "./serve.ts";

describe.each(sdkNames)("%s over WebSocket", (sdk) => {
  const modern = sdk === "SDK v2, modern";

  test("one server object serves it, in the client's own era", async () => {
    const seen: unknown[] = [];
    const { url, handler } = await serve({
      register: (mcp) =>
        void mcp.registerTool("who", {}, (ctx) => {
          seen.push(ctx.http?.req?.headers.get("x-team"), ctx.sessionId);
          return { content: [{ type: "text", text: "me" }] };
        }),
    });
    const { client } = await connect(sdk, url, { headers: { "x-team": "blue" } });
    expect((await client.listResources()).resources.map((each) => each.uri)).toEqual([uri]);
    const { contents } = await client.readResource({ uri });
    expect(contents[0]).toMatchObject({ uri });
    expect((await client.callTool({ name: "who" })).content).toEqual([
      { type: "text", text: "me" },
    ]);
    expect(seen).toEqual(["blue", undefined]);
    expect(handler.connections).toBe(1);
    const era = modern ? "modern" : "legacy";
    expect("getProtocolEra" in client ? client.getProtocolEra() : "legacy").toBe(era);
    await client.close();
    await expect.poll(() => handler.connections).toBe(0);
  });

  test("streamResource gives the bytes by a download beside the socket, bound to the same principal", async () => {
    const downloads: unknown[] = [];
    const { url, http } = await serve({ sluice: { principal }, ws: { bearer } });
    http.prependListener("request", ({ headers }) => downloads.push(headers.authorization));
    const { client } = await connect(sdk, url, { token: "ann" });
    const stream = await streamResource(client, uri);
    expect([stream.mode, stream.size]).toEqual(["downloadUrl", bytes.length]);
    expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);
    expect(downloads).toEqual(["Bearer ann"]);
  });

  test("access rules see the claims of the token that opened the connection", async () => {
    const { url } = await serve({
      sluice: {
        principal,
        access: (caller) => (caller?.claims?.["sub"] === "ann" ? "allow" : "hide"),
      },
      ws: { bearer },
    });
    for (const [token, seen] of [
      ["ann", [uri]],
      ["bob", []],
    ] as const) {
      const { client } = await connect(sdk, url, { token });
      expect((await client.listResources()).resources.map((each) => each.uri)).toEqual(seen);
    }
  });

  test("a broken download resumes where it stopped, and a file is saved whole", async () => {
    const { url, http } = await serve({ sluice: { principal }, ws: { bearer } });
    const ranges: unknown[] = [];
    http.prependListener("request", ({ headers, socket }) => {
      if (ranges.push(headers.range) > 1) return;
      const write = socket.write.bind(socket) as (...args: unknown[]) => boolean;
      let sent = 0;
      socket.write = (...args: unknown[]) => {
        const [chunk] = args as [Uint8Array];
        sent += chunk.length;
        if (sent > 150_000) socket.destroy();
        return write(...args);
      };
    });
    const { client } = await connect(sdk, url, { token: "ann" });
    const folder = await mkdtemp(join(tmpdir(), "sluice-ws-"));
    onTestFinished(() => rm(folder, { recursive: true }));
    const stream = await streamResource(client, uri, { timeouts: { pauseScale: 0.01 } });
    const { path } = await stream.saveTo(`${folder}/`);
    expect((await readFile(path)).equals(bytes)).toBe(true);
    expect(ranges.length).toBeGreaterThan(1);
  });

  test("the errors of a stream call are those of HTTP", async () => {
    const { url } = await serve();
    const { client } = await connect(sdk, url);
    await expect(streamResource(client, "files://demo/none")).rejects.toMatchObject({
      code: "not_found",
    });
    await expect(streamResource(client, uri, { maxStreamBytes: 10 })).rejects.toMatchObject({
      code: "too_large",
    });
    const stopped = new Error("enough");
    await expect(streamResource(client, uri, { signal: AbortSignal.abort(stopped) })).rejects.toBe(
      stopped,
    );
  });
});

test("a client that says so only in the literal field gets a download URL in the legacy era [SEP-2532/1.capability/must-declare-stream] [SEP-2532/1.capability/must-not-answer-undeclared] [SEP-2532/4.websocket/must-download-url]", async () => {
  const { port } = await serve();
  async function ask(capabilities: object): Promise<unknown> {
    const socket = await rawSocket(port);
    socket.text({ ...initialize, params: { ...initialize.params, capabilities } });
    expect(await socket.json()).toMatchObject({
      result: { capabilities: { resources: { stream: true } } },
    });
    socket.text({ jsonrpc: "2.0", id: 2, method: "resources/stream", params: { uri } });
    return socket.json();
  }
  expect(await ask({ resourceStreaming: {} })).toMatchObject({
    result: { uri, downloadUrl: expect.stringContaining("/mcp/streams/v1.") },
  });
  expect(await ask({})).toMatchObject({ error: { data: { reason: "client_capability" } } });
});

test("the transport for browsers works with their WebSocket and their fetch", async () => {
  vi.stubGlobal("WebSocket", WebSocket);
  onTestFinished(() => void vi.unstubAllGlobals());
  const { createWebSocketTransport } = await import("../src/client.ts");
  const { streamResource: streamByFetch } = await import("../../client/src/index.ts");
  const { Client } = await import("@modelcontextprotocol/client");
  const { url, handler } = await serve();
  const client = new Client(
    { name: "page", version: "1" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(createWebSocketTransport(url));
  const { body } = await streamByFetch(client, uri);
  expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
  await client.close();
  await expect.poll(() => handler.connections).toBe(0);
});
