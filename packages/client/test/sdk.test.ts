import {
  Client as ClientV2,
  StreamableHTTPClientTransport as TransportV2,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport as TransportV1 } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { describe, expect, test } from "vitest";
import { streamResource, type RequestingClient } from "../src/index.ts";
import { streamingCapabilities, withStreaming } from "@sluice/client/internal";
import { reply, replyUrl, startRawServer, type RawServer } from "./raw-server.ts";

const info = { name: "test", version: "1.0.0" };
const capabilities = streamingCapabilities({ maxStreamBytes: 5_000_000 });
const bytes = Buffer.alloc(200_000, "0123456789");

interface Connected extends RequestingClient {
  close(): Promise<void>;
}

const clients: Record<string, (server: RawServer) => Promise<Connected>> = {
  async "SDK version 1"(server) {
    const client = new ClientV1(info, { capabilities });
    await client.connect(new TransportV1(new URL(server.url), { fetch: withStreaming() }));
    return client;
  },
  async "SDK version 2, legacy era"(server) {
    const client = new ClientV2(info, { capabilities });
    await client.connect(new TransportV2(new URL(server.url), { fetch: withStreaming() }));
    return client;
  },
  async "SDK version 2, era probed"(server) {
    const client = new ClientV2(info, { capabilities, versionNegotiation: { mode: "auto" } });
    await client.connect(new TransportV2(new URL(server.url), { fetch: withStreaming() }));
    return client;
  },
};

async function read(client: RequestingClient, uri: string): Promise<Buffer> {
  const stream = await streamResource(client, uri);
  return Buffer.from(await new Response(stream.body).arrayBuffer());
}

describe.each(Object.entries(clients))("an unmodified client of %s", (_name, connect) => {
  test("gets direct bytes, redirected bytes and bytes behind a download URL", async () => {
    await using server = await startRawServer({
      stream(request, res) {
        const { uri } = request.params;
        if (uri === "x://url") return replyUrl(res, request, `${server.origin}/d/x://url`);
        if (uri === "x://302")
          return void res.writeHead(302, { location: "/d/x://302", "mcp-resource-uri": uri }).end();
        res.writeHead(200, { "content-length": bytes.length, "mcp-resource-uri": uri }).end(bytes);
      },
      get(req, res) {
        const uri = req.url?.slice("/d/".length);
        res.writeHead(200, { "content-length": bytes.length, "mcp-resource-uri": uri }).end(bytes);
      },
    });
    const client = await connect(server);
    for (const uri of ["x://direct", "x://302", "x://url"])
      expect((await read(client, uri)).equals(bytes)).toBe(true);
    const calls = server.seen.filter(({ body }) => body.includes("resources/stream"));
    expect(calls).toHaveLength(3);
    for (const { body, headers } of calls) {
      expect(body).not.toContain("sluice/call");
      expect(body).toContain("io.modelcontextprotocol/clientCapabilities");
      expect(headers.accept).toContain("*/*");
    }
    await client.close();
  });

  test("gets the codes of JSON-RPC errors", async () => {
    await using server = await startRawServer({
      stream(request, res) {
        const code = Number(request.params.uri.slice(4));
        reply(res, request, { error: { code, message: "text of the server" } });
      },
    });
    const client = await connect(server);
    const codes = { "-32002": "not_found", "-25323": "unsupported", "-32004": "too_large" };
    for (const [number, code] of Object.entries(codes))
      await expect(streamResource(client, `x://${number}`)).rejects.toMatchObject({
        code,
        message: expect.not.stringContaining("text of the server"),
      });
    await client.close();
  });
});
