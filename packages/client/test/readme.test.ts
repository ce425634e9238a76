import { createHash } from "node:crypto";
import { mkdtemp, readFile, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, expect, test } from "vitest";
import { startFileServer } from "./file-server.ts";
import type { RawServer } from "./raw-server.ts";
// #region connect
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createStreaming, saveResource, streamResource } from "@sluice/client";

export async function connectOwn(url: string): Promise<Client> {
  const { fetch, capabilities } = createStreaming();
  const client = new Client(
    { name: "me", version: "1.0.0" },
    { capabilities, versionNegotiation: { mode: "auto" } },
  );
  await client.connect(new StreamableHTTPClientTransport(new URL(url), { fetch }));
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
  client = await connectOwn(server.url);
});
afterEach(async () => {
  await client.close();
  await server[Symbol.asyncDispose]();
  await rm(directory, { recursive: true });
});

test("the first client of the README", async () => {
  const { url } = server;
  const token = "secret";
  const downloads = `${directory}/`;
  // #region first
  const { connect } = await import("@sluice/client/connect");

  const other = await connect(url, { token });
  const { path, sha256 } = await saveResource(other, "files://demo/big.iso", downloads);
  console.log(path, sha256);
  await other.close();
  // #endregion
  expect((await readFile(path)).equals(content)).toBe(true);
  expect(server.seen.at(-1)!.headers.authorization).toBe("Bearer secret");
});

test("the save of the README", async () => {
  const downloads = `${directory}/`;
  // #region save
  const saved = await saveResource(client, "files://demo/big.iso", downloads, {
    connections: 4,
    resume: true,
    onProgress: ({ bytes, totalBytes }) => console.log(bytes, "of", totalBytes),
  });
  console.log(saved.path, saved.sha256, saved.verified);
  // #endregion
  expect((await readFile(saved.path)).equals(content)).toBe(true);
});

test("the read of the README", async () => {
  // #region read
  const stream = await streamResource(client, "files://demo/big.iso", {
    maxStreamBytes: 50 * 2 ** 30,
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
  await saveResource(client, "files://demo/big.iso", downloads, {
    consent: ({ bytes, unknownSizes, from }) =>
      (bytes < 2 ** 20 && unknownSizes === 0) || confirm(`Save ${bytes} bytes from ${from[0]}?`),
  });
  // #endregion
  const { host } = new URL(server.url);
  expect(asked).toEqual([`Save 3000000 bytes from ${host}?`]);
});

test("the cache of the README", async () => {
  server.seen.length = 0;
  // #region cache
  const { createResourceCache } = await import("@sluice/client/cache");

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
