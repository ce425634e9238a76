import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { EXTENSION_ID } from "@sluice/core/internal";
import { streamResource } from "@sluice/client";
import { streamResource as streamInBrowser } from "../src/index.ts";
import { streamingCapabilities } from "../src/internal.ts";
import * as portable from "../src/internal.ts";
import * as node from "@sluice/client/internal";
import { expect, onTestFinished, test, vi } from "vitest";
import { startRawServer } from "./raw-server.ts";

const passed = globalThis.fetch;
const bytes = Buffer.alloc(50_000, "0123456789");
const uri = "x://a";

interface Sent {
  readonly id: number;
  readonly method: string;
  readonly params: { readonly _meta: Record<string, unknown> };
}

interface Setup {
  readonly library: Pick<typeof portable, "withDownloads">;
  readonly downloadUrl: string;
  readonly auth?: "bound" | "self";
  readonly side: portable.DownloadSide;
  readonly silent?: boolean;
}

/** A client over a transport without HTTP, and what its peer receives. */
async function connect({ library, downloadUrl, auth = "bound", side, silent }: Setup) {
  const [near, far] = InMemoryTransport.createLinkedPair();
  const calls: Sent[] = [];
  // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
  far.onmessage = (message) => {
    const { id, method, params } = message as unknown as Sent;
    if (method === "initialize")
      void far.send({
        jsonrpc: "2.0",
        id,
        result: {
          protocolVersion: "2025-11-25",
          capabilities: { resources: {} },
          serverInfo: { name: "far", version: "1" },
        },
      });
    if (method !== "resources/stream") return;
    calls.push({ id, method, params });
    if (silent) return;
    const result = { uri, downloadUrl, _meta: { [EXTENSION_ID]: { auth } } };
    void far.send({ jsonrpc: "2.0", id, result });
  };
  await far.start();
  const client = new Client(
    { name: "test", version: "1" },
    { capabilities: streamingCapabilities() },
  );
  await client.connect(library.withDownloads(near, () => side));
  return { client, calls };
}

const libraries = {
  portable: [portable, streamInBrowser],
  node: [node, streamResource],
} as const;

/** What a page may send to another origin without asking it first (Fetch: CORS-safelisted, or the browser's own). */
const safelisted = new Set(["accept", "accept-encoding", "accept-language", "connection", "host"]);

test("a download whose URL is enough needs no preflight where a page asks for it", async () => {
  await using server = await startRawServer({
    get(_req, res) {
      res.writeHead(200, { "content-length": bytes.length, "mcp-resource-uri": uri }).end(bytes);
    },
  });
  const asked: string[][] = [];
  vi.stubGlobal("fetch", (url: URL, init: RequestInit) => {
    asked.push([...new Headers(init.headers).keys()].filter((name) => !safelisted.has(name)));
    return passed(url, init);
  });
  onTestFinished(() => void vi.unstubAllGlobals());
  const side = { origin: new URL(server.origin) };
  const downloadUrl = `${server.origin}/d`;
  const { client } = await connect({ library: portable, downloadUrl, auth: "self", side });
  const { body } = await streamInBrowser(client, uri);
  await new Response(body).arrayBuffer();
  expect(asked).toEqual([[]]);
  await client.close();
});

test.each(Object.entries(libraries))(
  "downloads from the client's own origin have its credentials over a transport without HTTP (%s)",
  async (_name, [library, stream]) => {
    const asked: unknown[] = [];
    await using server = await startRawServer({
      get(req, res) {
        asked.push(req.headers.authorization);
        res.writeHead(200, { "content-length": bytes.length, "mcp-resource-uri": uri }).end(bytes);
      },
    });
    const side = { origin: new URL(server.origin), authorization: "Bearer secret" };
    const { client, calls } = await connect({ library, downloadUrl: `${server.origin}/d`, side });
    const { body, mode } = await stream(client, uri, { maxStreamBytes: 60_000 });
    expect(mode).toBe("downloadUrl");
    expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
    expect(asked).toEqual(["Bearer secret"]);

    // what only the two halves of the library say to each other does not go over the wire
    const [{ _meta }] = calls.map(({ params }) => params) as [Sent["params"]];
    expect(_meta["dev.sluice/call"]).toBeUndefined();
    expect(_meta["io.modelcontextprotocol/clientCapabilities"]).toMatchObject({
      resourceStreaming: { maxStreamSize: 60_000 },
    });
    await client.close();
  },
);

test("other origins get nothing: not a request, and no credentials even if they are trusted", async () => {
  const asked: unknown[] = [];
  await using server = await startRawServer({
    get(req, res) {
      asked.push(req.headers.authorization);
      res.writeHead(200, { "content-length": bytes.length, "mcp-resource-uri": uri }).end(bytes);
    },
  });
  const side = { origin: new URL("http://localhost:1"), authorization: "Bearer secret" };
  const downloadUrl = `${server.origin}/d`;
  const { client } = await connect({ library: node, downloadUrl, side });
  await expect(streamResource(client, uri)).rejects.toMatchObject({ code: "untrusted" });
  expect(asked).toEqual([]);
  const { body } = await streamResource(client, uri, { trustedOrigins: [server.origin] });
  await new Response(body).arrayBuffer();
  expect(asked).toEqual([undefined]);
  await client.close();
});

test("a server that does not answer the call is given up after headersMs", async () => {
  const side = { origin: new URL("http://localhost:1") };
  const { client } = await connect({ library: node, downloadUrl: "", side, silent: true });
  await expect(streamResource(client, uri, { timeouts: { headersMs: 20 } })).rejects.toMatchObject({
    code: "timeout",
  });
  await client.close();
});
