// A server with Sluice behind the bridge: the same messages as without it, for the clients in the field.
import {
  Client as ClientV2,
  InMemoryTransport,
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type Transport,
} from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { createHttpUpstream, runBridge } from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";
import { z } from "zod";
import { startSite } from "../bed/site.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

const info = { name: "host", version: "1.0.0" };
const clients = {
  "SDK v1": () => new ClientV1(info) as unknown as ClientV2,
  "SDK v2, legacy": () => new ClientV2(info),
  "SDK v2, modern": () => new ClientV2(info, { versionNegotiation: { mode: "auto" } }),
} as const;

function throughBridge(url: string): Transport {
  const [host, transport] = InMemoryTransport.createLinkedPair();
  const ended = runBridge({ host, upstream: createHttpUpstream({ endpoint: new URL(url) }) });
  onTestFinished(async () => {
    await transport.close();
    await ended;
  });
  return transport;
}

/** Every message that a client got. */
async function record(client: ClientV2, transport: Transport): Promise<JSONRPCMessage[]> {
  const got: JSONRPCMessage[] = [];
  await client.connect(transport);
  const deliver = transport.onmessage;
  transport.onmessage = (message, extra) => {
    got.push(message);
    deliver?.(message, extra);
  };
  const uri = "files://site/a.txt";
  const calls = [
    { method: "resources/list" },
    { method: "resources/templates/list" },
    { method: "resources/read", params: { uri } },
    { method: "resources/read", params: { uri: "files://site/none" } },
  ];
  for (const call of calls)
    await client.request(call as never, z.looseObject({}) as never).catch(() => {});
  await client.close();
  return got;
}

test.each(Object.entries(clients))(
  "%s gets the same messages through the bridge",
  async (_name, create) => {
    await using site = await startSite({
      files: { "a.txt": "content", "b.bin": new Uint8Array(100) },
    });
    const direct = await record(create(), new StreamableHTTPClientTransport(new URL(site.url)));
    const through = await record(create(), throughBridge(site.url));
    expect(through).toEqual(direct);
    expect(JSON.stringify(direct)).toContain("content");
  },
);

test("a method that the server lacks is the server's own error, whatever its status of HTTP", async () => {
  await using site = await startSite({ files: { "a.txt": "content" } });
  const client = clients["SDK v2, modern"]();
  await client.connect(throughBridge(site.url));
  await expect(
    client.request({ method: "example/unknown", params: {} }, z.looseObject({})),
  ).rejects.toThrow(/Method not found/);
  await client.close();
});
