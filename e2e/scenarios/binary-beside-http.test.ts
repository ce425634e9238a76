// @module-tag slow
import { Client as ClientV2, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import {
  binaryContent,
  createBinaryFetch,
  openBinary,
  readBinary,
  type Outlet,
} from "@sluice/binary-transfer/client";
import { createMemoryBackend } from "@sluice/storage";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { describe, expect, onTestFinished, test } from "vitest";
import { startBinarySite, type BinarySite, type BinarySiteOptions } from "../bed/binary-site.ts";
import { sdkNames, type SdkName } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";

const uri = "files://site/a.bin";
const content = Buffer.from(bytesOf(700_000, "beside"));
const info = { name: "test", version: "1" };

interface Connected {
  readonly client: ClientV2;
  readonly outlet: () => Outlet | undefined;
}

async function start(options: BinarySiteOptions = {}): Promise<BinarySite> {
  const site = await startBinarySite(createMemoryBackend({ "a.bin": content }), options);
  onTestFinished(() => site[Symbol.asyncDispose]());
  return site;
}

function clientOf(sdk: SdkName): ClientV2 {
  // the calls of the tests are the same in both, their types are not
  if (sdk === "SDK v1") return new ClientV1(info) as unknown as ClientV2;
  const mode = sdk === "SDK v2, modern" ? "auto" : "legacy";
  return new ClientV2(info, { versionNegotiation: { mode } });
}

/** A client over HTTP or WebSocket; `isOfficial`: without anything of ours that knows binary transfer. */
async function connect(
  sdk: SdkName,
  { url }: BinarySite,
  { over, isOfficial = false }: { over: "http" | "websocket"; isOfficial?: boolean },
): Promise<Connected> {
  const client = clientOf(sdk);
  const binary = isOfficial ? undefined : createBinaryFetch();
  onTestFinished(async () => {
    await client.close();
    binary?.close();
  });
  if (over === "websocket") {
    const transport = createWebSocketTransport(url.replace("http:", "ws:"), {
      ...(binary && { binary: {} }),
    });
    await client.connect(transport);
    return { client, outlet: () => transport.outlet };
  }
  const options = binary ? { fetch: binary.fetch } : {};
  const address = new URL(url);
  // the client is of the same version as its transport, whatever the types say
  const transport =
    sdk === "SDK v1"
      ? (new TransportV1(address, options) as object as StreamableHTTPClientTransport)
      : new StreamableHTTPClientTransport(address, options);
  await client.connect(transport);
  return { client, outlet: () => binary?.outlet };
}

const read = async (body: ReadableStream<Uint8Array>): Promise<Buffer> =>
  Buffer.from(await new Response(body).arrayBuffer());

describe.each(sdkNames)("%s", (sdk) => {
  test.each([
    ["http", {}],
    ["http", { sessions: true }],
    ["websocket", {}],
  ] as const)(
    "%s (%o): reads and tools carry bytes beside their messages [BINARY/3.b.multipart/parts] [BINARY/3.c.websocket/frames] [BINARY/transports/http] [BINARY/transports/websocket]",
    async (over, options) => {
      const { client, outlet } = await connect(sdk, await start(options), { over });
      const got = await readBinary(client, uri);
      expect([got.transferMode, got.size]).toEqual(["binary", content.length]);
      expect((await read(got.body)).equals(content)).toBe(true);
      const file = await binaryContent(outlet()!, {
        type: "audio",
        mimeType: "audio/wav",
        bytes: content,
      });
      const result = await client.callTool({ name: "echo", arguments: { file } });
      const echoed = openBinary((result.content as object[])[0]!)!;
      expect([echoed.transferMode, echoed.mimeType]).toEqual(["binary", "image/png"]);
      expect((await read(echoed.body)).equals(content)).toBe(true);
    },
  );

  test.each(["http", "websocket"] as const)(
    "%s gives base64 to an official client, and an unsupporting server gives it to ours [BINARY/compatibility/unsupporting-base64]",
    async (over) => {
      const official = await connect(sdk, await start(), { over, isOfficial: true });
      const unaware = await connect(sdk, await start({ binary: false }), { over });
      expect(unaware.outlet()).toBeUndefined();
      for (const { client } of [official, unaware]) {
        const { contents } = await client.readResource({ uri });
        const [first] = contents as { blob?: string }[];
        expect(Buffer.from(first!.blob!, "base64").equals(content)).toBe(true);
        const file = { type: "image", data: content.toString("base64"), mimeType: "x/y" };
        const result = await client.callTool({ name: "echo", arguments: { file } });
        const [echoed] = result.content as { data: string }[];
        expect(Buffer.from(echoed!.data, "base64").equals(content)).toBe(true);
      }
    },
  );
});

test("a session that declared itself literally gets parts on its later requests, and no other one does [BINARY/compatibility/only-both]", async () => {
  const { url } = await start({ sessions: true });
  const post = (message: object, session?: string): Promise<Response> =>
    fetch(url, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        ...(session !== undefined && {
          "mcp-session-id": session,
          "mcp-protocol-version": "2025-11-25",
        }),
      },
      body: JSON.stringify({ jsonrpc: "2.0", ...message }),
    });
  const typeFor = async (capabilities: object): Promise<string> => {
    const params = { protocolVersion: "2025-11-25", capabilities, clientInfo: info };
    const opened = await post({ id: 1, method: "initialize", params });
    const { result } = (await opened.json()) as { result: { capabilities: object } };
    expect(result.capabilities).toMatchObject({
      binaryTransfer: { supported: true, supportedModes: ["multipart"] },
    });
    const session = opened.headers.get("mcp-session-id")!;
    await post({ method: "notifications/initialized" }, session);
    const reading = { id: 2, method: "resources/read", params: { uri, transferMode: "binary" } };
    const answer = await post(reading, session);
    await answer.body?.cancel();
    return answer.headers.get("content-type")!;
  };
  const declared = { supported: true, preferredMode: "multipart" };
  expect(await typeFor({ binaryTransfer: declared })).toMatch(/^multipart\/mixed; boundary=/);
  expect(await typeFor({})).toMatch(/^text\/event-stream/);
});
