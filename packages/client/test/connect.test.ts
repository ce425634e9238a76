import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { connect as connectPortable } from "../src/connect.ts";
import { connect } from "../src/connect-node.ts";
import { saveResource as saveInPage, streamResource as streamInPage } from "../src/index.ts";
import { saveResource, streamResource } from "@sluice/client";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";
import { SluiceError } from "@sluice/core";
import { startFileServer, type ServedFile } from "./file-server.ts";
import type { RawServer } from "./raw-server.ts";

const content = Buffer.alloc(300_000, "0123456789");
const uri = "files://demo/big.bin";
let served: ServedFile;
let server: RawServer;
let directory: string;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
  served = { content };
  server = await startFileServer(served);
});
afterEach(async () => {
  vi.doUnmock("@modelcontextprotocol/client");
  vi.resetModules();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

describe.each([
  ["Node", connect, streamResource],
  ["pages", connectPortable, streamInPage],
])("the connect of %s", (_, connectHere, streamHere) => {
  async function open(
    ...[options]: Parameters<typeof connect> extends [unknown, ...infer R] ? R : []
  ) {
    const client = await connectHere(server.url, options);
    onTestFinished(() => client.close());
    return client;
  }

  test("gives a client that streams, in each way of delivery", async () => {
    const client = await open();
    for (const delivery of ["direct", "redirect", "downloadUrl"] as const) {
      Object.assign(served, { delivery });
      const { body } = await streamHere(client, uri);
      expect(Buffer.from(await new Response(body).arrayBuffer()).equals(content)).toBe(true);
    }
  });

  test("says who it is, and declares that it streams", async () => {
    await open({ name: "saver", version: "7" });
    const { body } = server.seen.find((seen) => seen.body.includes('"initialize"'))!;
    const { params } = JSON.parse(body) as { params: Record<string, object> };
    expect(params).toMatchObject({
      clientInfo: { name: "saver", version: "7" },
      capabilities: { extensions: { "dev.sluice/resource-streaming": {} } },
    });
  });

  test("asks for the token before each request, also for that of the bytes", async () => {
    let count = 0;
    const client = await open({ token: async () => `secret-${++count}` });
    const { body } = await streamHere(client, uri);
    await new Response(body).arrayBuffer();
    const posts = server.seen.filter(({ method }) => method === "POST");
    const tokens = posts.map(({ headers }) => headers.authorization);
    expect(posts.length).toBeGreaterThan(2);
    for (const token of tokens) expect(token).toMatch(/^Bearer secret-\d+$/);
    expect(new Set(tokens).size).toBe(posts.length);
    expect(server.seen.at(-1)).toMatchObject({ method: "GET" });
    expect(server.seen.at(-1)!.headers.authorization).toBe(tokens.at(-1));
  });

  test("sends a token that is text", async () => {
    await open({ token: "secret" });
    const [first] = server.seen;
    expect(first!.headers.authorization).toBe("Bearer secret");
  });

  test("sends its requests through the fetch of the caller", async () => {
    const through = vi.fn<typeof fetch>((input, init) => fetch(input, init));
    const client = await open({ fetch: through });
    const { body } = await streamHere(client, uri);
    await new Response(body).arrayBuffer();
    expect(through).toHaveBeenCalledTimes(server.seen.length);
  });

  test("gives up when the signal says so, and leaves no connection", async () => {
    const reason = new Error("no more time");
    const stop = new AbortController();
    const silent = vi.fn<typeof fetch>(
      (_input, init) =>
        new Promise((_resolve, reject) => {
          init?.signal?.addEventListener("abort", () => reject(new Error("aborted")));
        }),
    );
    const connecting = connectHere(server.url, { fetch: silent, signal: stop.signal });
    await expect.poll(() => silent.mock.calls.length).toBe(1);
    stop.abort(reason);
    await expect(connecting).rejects.toBe(reason);
    const signal = AbortSignal.abort(reason);
    await expect(connectHere(server.url, { signal })).rejects.toBe(reason);
    expect(server.seen).toEqual([]);
  });

  test("rejects what cannot work before anything is sent", async () => {
    const far = "http://files.example.com/mcp";
    await expect(connectHere(far, { token: "secret" })).rejects.toMatchObject({
      code: "untrusted",
    });
    for (const endpoint of [
      "files.example.com",
      "file:///etc/passwd",
      "http://me:secret@a.b/mcp",
    ]) {
      const refused = connectHere(endpoint);
      await expect(refused).rejects.toThrow(TypeError);
      await expect(refused).rejects.toThrow("such as http://127.0.0.1:2532/mcp");
      await expect(refused).rejects.toThrow(expect.not.stringContaining("secret"));
    }
    await expect(connectHere("ws://127.0.0.1/mcp")).rejects.toThrow("@sluice/transport-ws");
    const mistyped = { tokn: "secret" } as object;
    await expect(connectHere(server.url, mistyped)).rejects.toThrow("did you mean token?");
    expect(server.seen).toEqual([]);
  });
});

test.each<[string, typeof fetch, string]>([
  ["401", async () => new Response("no", { status: 401 }), "unauthenticated"],
  ["403", async () => new Response("no", { status: 403 }), "permission_denied"],
  ["404", async () => new Response("no", { status: 404 }), "not_found"],
  ["405", async () => new Response("no", { status: 405 }), "not_found"],
  ["429", async () => new Response("no", { status: 429 }), "throttled"],
  ["503", async () => new Response("no", { status: 503 }), "unavailable"],
  ["a page", async () => new Response("no"), "protocol"],
  ["a broken network", () => Promise.reject(new TypeError("fetch failed")), "unavailable"],
  [
    "an error of ours",
    () => Promise.reject(new SluiceError("untrusted", "not there", { cause: new Error("why") })),
    "untrusted",
  ],
])("rejects with an error of ours for %s, and leaves no connection", async (_, refusing, code) => {
  const error: unknown = await connect(server.url, { fetch: refusing }).catch((fault) => fault);
  expect(error).toMatchObject({ name: "SluiceError", code });
  expect(error).toHaveProperty("message", expect.not.stringMatching(/\bno$/));
  expect(error).toHaveProperty("cause", expect.any(Error));
});

test("a server that is down is unavailable", async () => {
  await expect(connect("http://127.0.0.1:9/mcp")).rejects.toMatchObject({ code: "unavailable" });
});

test("without the SDK it says what to install", async () => {
  vi.resetModules();
  vi.doMock("@modelcontextprotocol/client", () => {
    throw new Error("Cannot find package");
  });
  const { connect: connectWithout } = await import("../src/connect.ts");
  await expect(connectWithout(server.url)).rejects.toMatchObject({
    code: "unsupported",
    message: expect.stringMatching(/install it, or give createStreaming\(\)/) as string,
  });
});

describe("saveResource", () => {
  test("saves a file with the options of the stream and of the save", async () => {
    const client = await connect(server.url);
    const counts: number[] = [];
    const saved = await saveResource(client, uri, `${directory}/`, {
      name: "copy.bin",
      trustedOrigins: [],
      onProgress: ({ bytes }) => counts.push(bytes),
    });
    expect(saved).toMatchObject({
      path: join(directory, "copy.bin"),
      size: content.length,
      sha256: expect.stringMatching(/^[0-9a-f]{64}$/) as string,
    });
    expect((await readFile(saved.path)).equals(content)).toBe(true);
    expect(counts.at(-1)).toBe(content.length);
    await expect(
      saveResource(client, uri, directory, { maxStreamBytes: 10 }),
    ).rejects.toMatchObject({ code: "too_large" });
    await client.close();
  });

  test("takes only a path that is text, before it asks the server", async () => {
    const client = { request: vi.fn<() => Promise<unknown>>() };
    for (const path of [undefined, new URL("file:///tmp/"), ""])
      await expect(saveResource(client, uri, path as string)).rejects.toThrow(
        'takes a file or a folder, such as "downloads/"',
      );
    expect(client.request).not.toHaveBeenCalled();
  });

  test("is unsupported in portable code, before the server is asked, and so is saveTo", async () => {
    const client = await connectPortable(server.url);
    const before = server.seen.length;
    const refused = {
      code: "unsupported",
      message: expect.stringContaining("saving needs Node or Bun"),
    };
    await expect(saveInPage(client, uri, directory)).rejects.toMatchObject(refused);
    expect(server.seen).toHaveLength(before);
    Object.assign(served, { delivery: "direct", content: Buffer.alloc(50_000_000) });
    const stream = await streamInPage(client, uri, { prefer: ["direct"] });
    await expect(stream.saveTo(directory)).rejects.toMatchObject(refused);
    await client.close();
    // nothing waits for the bytes any more
    await expect.poll(() => server.open()).toBe(0);
  });
});
