// The demo server over each service that signs URLs: where it is told the origin, the answer is 302.
import { createServer, request } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { text } from "node:stream/consumers";
import { createMemoryBackend } from "@sluice/storage";
import { startGraphEmulator } from "@sluice/graph-emulator";
import { afterEach, expect, onTestFinished, test, vi } from "vitest";
import { sharedAzurite, startMs } from "../../../packages/storage-azure-blob/test/azurite.ts";
import { startS3StandIn } from "../../../packages/storage-s3/test/stand-in/stand-in.ts";
import { openStorage } from "@sluice/cli/internal";
import { readRedirectOrigins } from "../src/lib/redirect-origins.ts";
import { createApp } from "../src/server.ts";

const hello = Buffer.from("hello");
afterEach(() => {
  vi.unstubAllEnvs();
});

/** Settings of a server over a service with the one object `demo/a.txt`. */
interface Setting {
  readonly storage: string;
  readonly environment: Readonly<Record<string, string>>;
  readonly origin: string;
  /** Path of the service's own request that gave the URL; absent where the plugin signs it itself. */
  readonly lastAsked?: () => string | undefined;
}

const services: Readonly<Record<string, () => Promise<Setting>>> = {
  async S3() {
    const s3 = await startS3StandIn();
    onTestFinished(() => s3[Symbol.asyncDispose]());
    s3.put("demo/a.txt", hello);
    vi.stubEnv("AWS_ACCESS_KEY_ID", s3.credentials.accessKeyId);
    vi.stubEnv("AWS_SECRET_ACCESS_KEY", s3.credentials.secretAccessKey);
    const storage = `s3://${s3.bucket}/demo?region=${s3.region}&endpoint=${s3.endpoint}`;
    return { storage, environment: {}, origin: s3.endpoint };
  },
  async "Azure Blob"() {
    const azurite = await sharedAzurite();
    const { url, account, key } = azurite;
    const container = await azurite.createContainer();
    await container.getBlockBlobClient("demo/a.txt").upload(hello, hello.byteLength);
    onTestFinished(async () => void (await container.delete()));
    const connection = `DefaultEndpointsProtocol=http;AccountName=${account};AccountKey=${key};BlobEndpoint=${url};`;
    return {
      storage: `azblob://${container.containerName}/demo`,
      environment: { AZURE_STORAGE_CONNECTION_STRING: connection },
      origin: new URL(url).origin,
    };
  },
  async Graph() {
    const graph = await startGraphEmulator();
    onTestFinished(() => graph[Symbol.asyncDispose]());
    graph.drive.put("demo/a.txt", hello);
    const { token } = await graph.credential.getToken();
    const { graph: baseUrl, download } = graph.origins;
    return {
      storage: `graph://${graph.drive.id}/demo`,
      environment: { GRAPH_ACCESS_TOKEN: token, GRAPH_BASE_URL: baseUrl },
      origin: download,
      lastAsked: () => graph.requests.findLast(({ origin }) => origin === "graph")?.url,
    };
  },
};

/** What `resources/stream` is answered with, redirects unfollowed. */
async function stream({ storage, environment }: Setting, origins: string | undefined) {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const endpoint = `http://127.0.0.1:${(server.address() as AddressInfo).port}/mcp`;
  const backend = await openStorage(storage, environment);
  const app = createApp({
    storage: backend,
    received: createMemoryBackend(),
    endpoint,
    redirectOrigins: readRedirectOrigins(origins),
  });
  server.on("request", app);
  const terms = { maxStreamSize: 1_000 };
  const _meta = {
    "io.modelcontextprotocol/clientCapabilities": {
      resourceStreaming: terms,
      extensions: { "dev.sluice/resource-streaming": terms },
    },
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
  };
  const params = { uri: "files://demo/a.txt", _meta };
  const sent = request(endpoint, {
    method: "POST",
    agent: false,
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream, */*",
      "mcp-protocol-version": "2026-07-28",
      "mcp-method": "resources/stream",
      "mcp-name": params.uri,
    },
  });
  sent.end(JSON.stringify({ jsonrpc: "2.0", id: 1, method: "resources/stream", params }));
  const [answer] = await once(sent, "response");
  const body = await text(answer);
  server.close().closeAllConnections();
  await backend.close?.();
  return { status: answer.statusCode as number, location: answer.headers.location as string, body };
}

test.each(Object.keys(services))(
  "%s: the answer is 302 to the signed bytes at an origin that is named, and the bytes elsewhere [SEP-2532/plan/graph-urls]",
  { tags: "slow", timeout: startMs },
  async (name) => {
    const setting = await services[name]!();
    const { status, location } = await stream(setting, setting.origin);
    expect([status, new URL(location).origin]).toEqual([302, setting.origin]);
    expect(setting.lastAsked?.() ?? "/content").toMatch(/\/content$/);
    expect(await (await fetch(location)).text()).toBe("hello");
    for (const others of [undefined, "https://elsewhere.example"])
      expect(await stream(setting, others)).toMatchObject({ status: 200, body: "hello" });
  },
);

test("a setting holds origins, and nothing else", () => {
  const two = " https://a.example , http://127.0.0.1:9000/ ";
  expect(readRedirectOrigins(two)).toEqual(["https://a.example", "http://127.0.0.1:9000"]);
  expect(readRedirectOrigins(undefined)).toEqual([]);
  expect(readRedirectOrigins("")).toEqual([]);
  for (const wrong of [
    "a.example",
    "http://a.example",
    "https://a.example/b",
    "https://u:p@a.example",
    "https://a.example?sig=secret",
    "*",
  ])
    expect(() => readRedirectOrigins(wrong), wrong).toThrow(
      /^demo-server: SLUICE_REDIRECT_ORIGINS needs/,
    );
  expect(() => readRedirectOrigins("https://a.example?sig=secret")).not.toThrow(/secret/);
});
