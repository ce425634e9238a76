// @module-tag slow
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { createBinaryFetch, readBinary } from "@sluice/binary-transfer/client";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { createStdioClientTransport } from "@sluice/transport-stdio/client";
import { describe, expect, inject, onTestFinished, test } from "vitest";
import { connectStdio } from "../base/channel-client.ts";
import { connectHttp } from "../base/http-client.ts";
import { Fault, revisions, type Revision } from "../base/message.ts";
import { blockBehind, readMultipart, readStream } from "./client.ts";
import { clientCapabilities } from "./examples.ts";
import { startBinaryServer, uri, type BinaryFault } from "./server.ts";

const size = 300_000;
const content = Buffer.alloc(size, "literal ");
const faults: readonly BinaryFault[] = ["other-id", "other-checksum", "short"];
const stdio = inject("programs")["e2e/literal/binary-rfc/stdio-server.ts"]!;

const clientOf = (revision: Revision): Client => {
  const mode = revision === "2025-11-25" ? "legacy" : "auto";
  return new Client({ name: "test", version: "1.0.0" }, { versionNegotiation: { mode } });
};

type Channel = "HTTP" | "WebSocket" | "stdio";

/** A client of ours at a server of the text. */
async function connect(channel: Channel, revision: Revision, fault?: BinaryFault): Promise<Client> {
  const client = clientOf(revision);
  onTestFinished(() => client.close());
  if (channel === "stdio") {
    const args = [stdio, String(size), ...(fault ? [fault] : [])];
    await client.connect(createStdioClientTransport({ command: process.execPath, args }));
    return client;
  }
  const mode = channel === "HTTP" ? "multipart" : "websocket-binary";
  const server = await startBinaryServer(revision, mode, content, fault);
  onTestFinished(() => server[Symbol.asyncDispose]());
  if (channel === "WebSocket") {
    await client.connect(createWebSocketTransport(server.socketUrl, { binary: {} }));
    return client;
  }
  const binary = createBinaryFetch();
  onTestFinished(() => binary.close());
  const { fetch } = binary;
  await client.connect(new StreamableHTTPClientTransport(new URL(server.url), { fetch }));
  return client;
}

async function readAll(client: Client, signal?: AbortSignal): Promise<Buffer> {
  const { body } = await readBinary(client, uri, signal ? { signal } : {});
  const chunks: Uint8Array[] = [];
  for await (const chunk of body) chunks.push(chunk);
  return Buffer.concat(chunks);
}

describe.each<Channel>(["HTTP", "WebSocket", "stdio"])("over %s", (channel) => {
  describe.each(revisions)("%s", (revision) => {
    test("readBinary takes the bytes of a server of the text", async () => {
      const client = await connect(channel, revision);
      expect((await readAll(client)).equals(content)).toBe(true);
    });

    test.each(faults)("bytes of a server with the fault %s never look whole", async (fault) => {
      const client = await connect(channel, revision, fault);
      // frames that are missing on a WebSocket may still come
      const reading = readAll(client, AbortSignal.timeout(500));
      expect(await reading.catch((error: unknown) => error)).toBeInstanceOf(Error);
    });
  });
});

// the literal client itself is one that sees faults
describe.each(revisions)("%s", (revision) => {
  test.each(faults)("the literal client sees the fault %s, and none without it", async (fault) => {
    for (const made of [fault, undefined]) {
      await using server = await startBinaryServer(revision, "multipart", content, made);
      const capabilities = clientCapabilities("multipart");
      await using http = await connectHttp(server.url, { revision, capabilities });
      const args = [process.execPath, stdio, String(size), ...(made ? [made] : [])];
      const streaming = { revision, capabilities: clientCapabilities("stream") };
      await using pipes = await connectStdio(args, streaming, blockBehind);
      for (const read of [() => readMultipart(http, uri), () => readStream(pipes, uri)])
        expect(
          await read().then(
            (bytes) => bytes.equals(content),
            (error: unknown) => (error instanceof Fault ? "fault" : error),
          ),
        ).toBe(made ? "fault" : true);
    }
  });
});
