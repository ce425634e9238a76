import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startFileServer } from "./file-server.ts";
import type { RawServer } from "./raw-server.ts";
// #region connect
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { streamingCapabilities, streamResource, withStreaming } from "@sluice/client";

export async function connect(url: string): Promise<Client> {
  const client = new Client(
    { name: "me", version: "1.0.0" },
    { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
  );
  const transport = new StreamableHTTPClientTransport(new URL(url), { fetch: withStreaming() });
  await client.connect(transport);
  return client;
}
// #endregion

const content = Buffer.alloc(3_000_000, "The quick brown fox ");
let directory: string;
let server: RawServer;
let client: Client;
beforeEach(async () => {
  directory = await mkdtemp(join(tmpdir(), "sluice-"));
  server = await startFileServer({ content });
  client = await connect(server.url);
});
afterEach(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

test("the save of the README", async () => {
  const downloads = `${directory}/`;
  // #region save
  const stream = await streamResource(client, "files://demo/big.iso");
  const saved = await stream.saveTo(downloads, {
    connections: 4,
    resume: true,
    onProgress: ({ receivedBytes, totalBytes }) => console.log(receivedBytes, "of", totalBytes),
  });
  console.log(saved.path, saved.sha256, saved.verified);
  // #endregion
  expect((await readFile(saved.path)).equals(content)).toBe(true);
});

test("the read of the README", async () => {
  // #region read
  const stream = await streamResource(client, "files://demo/big.iso", {
    maxStreamSize: 50 * 2 ** 30,
    signal: AbortSignal.timeout(3_600_000),
  });
  const hash = createHash("sha256");
  for await (const chunk of stream.body) hash.update(chunk);
  // #endregion
  expect(hash.digest("hex")).toBe(createHash("sha256").update(content).digest("hex"));
});

test("the trust of the README", async () => {
  // #region trust
  const stream = await streamResource(client, "files://demo/big.iso", {
    trustedOrigins: ["https://cdn.example.com", "https://*.blob.core.windows.net"],
    requireDigest: false,
  });
  // #endregion
  expect(stream.vouched).toBe(true);
  await stream.body.cancel();
});

test("the consent of the README", async () => {
  const asked: string[] = [];
  const confirm = async (question: string): Promise<boolean> => asked.push(question) > 0;
  const downloads = `${directory}/`;
  // #region consent
  const { formatScale } = await import("@sluice/client");

  const stream = await streamResource(client, "files://demo/big.iso", {
    // "1 file, 3.0 MB, to ~/Downloads/, from example.com"
    consent: (scale) => scale.bytes < 2 ** 20 || confirm(`Download ${formatScale(scale)}?`),
  });
  await stream.saveTo(downloads);
  // #endregion
  const { host } = new URL(server.url);
  expect(asked).toEqual([`Download 1 file, 3.0 MB, to ${downloads}, from ${host}?`]);
});

test("the cache of the README", async () => {
  server.seen.length = 0;
  // #region cache
  const { createResourceCache } = await import("@sluice/client");

  const cache = createResourceCache(client, { ttlMs: 5_000, maxResourceBytes: 4 * 2 ** 20 });
  client.setNotificationHandler("notifications/resources/updated", ({ params }) =>
    cache.invalidate(params.uri),
  );
  const { bytes, facts } = await cache.read("files://demo/big.iso");
  const { etag } = await cache.describe("files://demo/big.iso");
  // #endregion
  expect(Buffer.from(bytes).equals(content)).toBe(true);
  expect(etag).toBe(facts.etag);
  expect(server.seen.filter(({ url }) => url.startsWith("/d/"))).toHaveLength(1);
});
