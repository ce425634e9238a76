import { mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMemoryBackend } from "@sluice/storage";
import { afterAll, beforeAll, describe, expect, inject, test } from "vitest";
import { startBinarySite, type BinarySite } from "../../bed/binary-site.ts";
import { bytesOf } from "../../bed/content.ts";
import { connectSocket, connectStdio } from "../base/channel-client.ts";
import { connectHttp, type Peer } from "../base/http-client.ts";
import { revisions, type Json } from "../base/message.ts";
import { blockBehind, modesOf, readFrames, readMultipart, readStream } from "./client.ts";
import { clientCapabilities } from "./examples.ts";

const content = bytesOf(300_000, "binary literal");
const name = "a.bin";
let folder = "";
let site: BinarySite;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "sluice-literal-"));
  await writeFile(join(folder, name), content);
  site = await startBinarySite(createMemoryBackend({ [name]: content }), { sessions: true });
});
afterAll(async () => {
  await site[Symbol.asyncDispose]();
  await rm(folder, { recursive: true, force: true });
});

const server = inject("programs")["packages/transport-stdio/test/serving-process.ts"]!;

/** What a client gets that declared nothing of the RFC. */
async function readPlain(peer: Peer, uri: string): Promise<Buffer> {
  const { result } = await peer.call("resources/read", { uri, transferMode: "binary" });
  const [read] = result!["contents"] as Json[];
  expect(read).not.toHaveProperty("binaryRef");
  return Buffer.from(read!["blob"] as string, "base64");
}

describe.each(revisions)("%s", (revision) => {
  test("a client of the text gets a multipart response over HTTP", async () => {
    const capabilities = clientCapabilities("multipart");
    await using peer = await connectHttp(site.url, { revision, capabilities });
    expect(modesOf(peer)).toContain("multipart");
    expect((await readMultipart(peer, `files://site/${name}`)).equals(content)).toBe(true);
  });

  test("a client of the text gets frames that begin with the stream's id over WebSocket", async () => {
    const capabilities = clientCapabilities("websocket-binary");
    const url = site.url.replace("http", "ws");
    await using peer = await connectSocket(url, { revision, capabilities });
    expect(modesOf(peer)).toContain("websocket-binary");
    expect((await readFrames(peer, `files://site/${name}`)).equals(content)).toBe(true);
  });

  test(
    "a client of the text gets the bytes after their message over stdio",
    { tags: "slow" },
    async () => {
      const capabilities = clientCapabilities("stream");
      const command = [process.execPath, server, folder];
      await using peer = await connectStdio(command, { revision, capabilities }, blockBehind);
      expect(modesOf(peer)).toContain("stream");
      expect((await readStream(peer, `files://demo/${name}`)).equals(content)).toBe(true);
      // SEP-2532, section 4: no streams over stdio
      expect(peer.capabilities["resources"]).not.toHaveProperty("stream");
    },
  );

  test.each(["HTTP", "WebSocket", "stdio"])(
    "%s gives Base64 to a client that declares nothing",
    async (channel) => {
      const plain = { revision, capabilities: {} };
      const open = {
        HTTP: () => connectHttp(site.url, plain),
        WebSocket: () => connectSocket(site.url.replace("http", "ws"), plain),
        stdio: () => connectStdio([process.execPath, server, folder], plain, blockBehind),
      }[channel]!;
      await using peer = await open();
      const base = channel === "stdio" ? "files://demo/" : "files://site/";
      expect((await readPlain(peer, base + name)).equals(content)).toBe(true);
    },
  );
});

test("a client of 2025-11-25 over HTTP without sessions gets Base64: nothing was negotiated", async () => {
  await using stateless = await startBinarySite(createMemoryBackend({ [name]: content }));
  const capabilities = clientCapabilities("multipart");
  await using peer = await connectHttp(stateless.url, { revision: "2025-11-25", capabilities });
  expect((await readPlain(peer, `files://site/${name}`)).equals(content)).toBe(true);
});
