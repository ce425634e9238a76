// @module-tag slow
// Links of large results over the transports that a host may have; stdio is in bridge-links-memory.test.ts.
import { createServer } from "node:http";
import { InMemoryTransport, type Client, type Transport } from "@modelcontextprotocol/client";
import { toNodeHandler as toSdkNodeHandler } from "@modelcontextprotocol/node";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { StdioClientTransport as StdioClientTransportV1 } from "@modelcontextprotocol/sdk/client/stdio.js";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listenWebSocket } from "@sluice/transport-ws";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { expect, inject, onTestFinished, test } from "vitest";
import { createHost } from "../../packages/bridge/test/bridged.ts";
import { createLargeServer, text as reported } from "../../packages/bridge/test/large-server.ts";
import { linkedHost, openOperator, urlIn, type Operator } from "../bed/bridge-operator.ts";
import { listen } from "../bed/listen.ts";
import type { LinkingSettings } from "../bed/programs/bridge-links.ts";
import { createLinkingBridge } from "../examples/bridge-links.ts";
import { large, startLargeServer } from "../bed/large-server.ts";

const program = inject("programs")["e2e/bed/programs/bridge-links.ts"]!;

/** What a handler of WebSockets takes for a server: it hands each connection to a bridge. */
class BridgingServer extends McpServer {
  readonly #run: (transport: Transport) => void;

  constructor(run: (transport: Transport) => void) {
    super({ name: "bridge", version: "1" });
    this.#run = run;
  }

  override async connect(transport: Transport): Promise<void> {
    this.#run(transport);
  }
}

async function expectLinked(client: Client): Promise<void> {
  const result = await client.callTool({ name: "give", arguments: { what: "text" } });
  expect(JSON.stringify(result).length).toBeLessThan(2_048);
  const url = urlIn((result.content as { text: string }[])[0]!.text);
  expect(await (await fetch(url)).text()).toBe(large.text);
  const { contents } = await client.readResource({ uri: "big://a/blob.bin" });
  const blob = await fetch(urlIn((contents[0] as { text: string }).text));
  expect(Buffer.from(await blob.arrayBuffer()).equals(large.blob)).toBe(true);
}

async function webSocketTo(operator: Operator, behind: URL): Promise<string> {
  const server = await listenWebSocket(
    () => new BridgingServer((transport) => void operator.run({ transport, behind })),
    { anonymous: true },
  );
  onTestFinished(() => server.close({ deadlineMs: 1_000 }));
  return server.url;
}

for (const revision of ["legacy", "modern"] as const) {
  test(`a ${revision} host in memory gets links`, async () => {
    const operator = await openOperator();
    await expectLinked(await linkedHost(operator, await startLargeServer(), {}, revision));
  });

  test(`a ${revision} host over WebSocket gets links`, async () => {
    const operator = await openOperator();
    const url = await webSocketTo(operator, await startLargeServer());
    const client = createHost(revision);
    onTestFinished(() => client.close());
    await client.connect(createWebSocketTransport(url));
    await expectLinked(client);
  });
}

test("the bridge of the guide makes links for its caller", async () => {
  const server = createServer();
  const listening = await listen(server);
  onTestFinished(() => listening.close());
  const bridge = createLinkingBridge(await startLargeServer(), `${listening.origin}/mcp`);
  onTestFinished(() => bridge.close());
  server.on("request", toNodeHandler(bridge.handler));
  const [host, transport] = InMemoryTransport.createLinkedPair();
  const authInfo = { token: "t", clientId: "ada", scopes: [] };
  const serving = bridge.serve(host, { authInfo, header: () => undefined });
  const client = createHost("legacy");
  await client.connect(transport);
  await expectLinked(client);
  await client.close();
  await serving;
});

test("a host of SDK v1 over stdio, a server of SDK v2 over HTTP: its result is a link", async () => {
  const sdkServer = createServer();
  const listening = await listen(sdkServer);
  onTestFinished(() => listening.close());
  const handle = toSdkNodeHandler(createMcpHandler(createLargeServer));
  sdkServer.on("request", (request, response) => void handle(request as never, response));
  const settings: LinkingSettings = { behind: `${listening.origin}/mcp` };
  const args = [program, JSON.stringify(settings)];
  const client = new ClientV1({ name: "host", version: "1" });
  onTestFinished(() => client.close());
  await client.connect(new StdioClientTransportV1({ command: process.execPath, args }));
  const { content } = (await client.callTool({ name: "report" })) as { content: any[] };
  expect(content.map(({ type }) => type)).toEqual(["text", "resource_link", "text"]);
  expect(await (await fetch(content[1].uri)).text()).toBe(reported);
});
