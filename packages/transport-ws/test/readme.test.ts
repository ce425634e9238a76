import { createServer, type RequestListener } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer, OAuthError, OAuthErrorCode, type AuthInfo } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { askForeign } from "../../transport-http/test/foreign-requests.ts";
import { principal } from "./serve.ts";

const storage = createMemoryBackend({ "a.txt": "hello" });
const keys = [generateKey()];
const { state } = createMemoryStores();

/** Stands for the access tokens of an authorization server. */
const verifier = {
  async verifyAccessToken(token: string): Promise<AuthInfo> {
    if (token !== "token-of-ann") throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown");
    const expiresAt = Math.floor(Date.now() / 1_000) + 600;
    return { token, clientId: "app", scopes: [], expiresAt, extra: { sub: "ann" } };
  },
};

const getAccessToken = (): string => "token-of-ann";
const create = (): McpServer => new McpServer({ name: "demo", version: "1.0.0" });

test("the examples of the README run", async () => {
  let listener: RequestListener | undefined;
  const http = createServer((request, response) => listener?.(request, response));
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const host = `127.0.0.1:${(http.address() as AddressInfo).port}`;
  onTestFinished(async () => {
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  const endpoint = `http://${host}/mcp`;
  const url = `ws://${host}/mcp`;

  // #region server
  const { createHandler } = await import("@sluice/transport-http");
  const { toNodeHandler } = await import("@sluice/transport-http/node");
  const { createWebSocketHandler } = await import("@sluice/transport-ws");

  const sluice = createSluice({ storage, baseUri: "files://demo/", endpoint, keys, principal });
  const sockets = createWebSocketHandler(
    () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
    { url, bearer: { verifier } },
  );
  http.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  // the download route below `endpoint`, on this server or on any other
  const downloads = toNodeHandler(createHandler({ sluice }));
  // #endregion
  listener = (request, response) => {
    const auth = { token: "", clientId: "app", scopes: [], extra: { sub: "ann" } };
    downloads(Object.assign(request, { auth }), response);
  };

  expect((await askForeign(endpoint)).wrong).toEqual([]);

  // #region client
  const { Client } = await import("@modelcontextprotocol/client");
  const { streamResource } = await import("@sluice/client");
  const { createWebSocketTransport } = await import("@sluice/transport-ws/client");

  const client = new Client(
    { name: "app", version: "1.0.0" },
    { versionNegotiation: { mode: "auto" } },
  );
  await client.connect(createWebSocketTransport(url, { token: getAccessToken }));
  const { body } = await streamResource(client, "files://demo/a.txt");
  // #endregion
  expect(await new Response(body).text()).toBe("hello");

  // #region pending
  const { isConnectionLost } = await import("@sluice/transport-ws/client");

  async function listTwice(): Promise<number> {
    try {
      return (await client.listResources()).resources.length;
    } catch (error) {
      // to list is harmless, so ask again; a tool call may have run already
      if (!isConnectionLost(error)) throw error;
      return (await client.listResources()).resources.length;
    }
  }
  // #endregion
  expect(await listTwice()).toBe(1);
  await client.close();

  // #region drain
  await sockets.close({ restart: true, deadlineMs: 30_000 });
  // #endregion
});

test("bytes go beside messages, as the README has it", async () => {
  const { binaryReads } = await import("@sluice/binary-transfer");
  const { listenWebSocket } = await import("@sluice/transport-ws");
  const { Client } = await import("@modelcontextprotocol/client");
  const { createWebSocketTransport } = await import("@sluice/transport-ws/client");
  const endpoint = "http://127.0.0.1/mcp";
  const sluice = createSluice({ storage, baseUri: "files://demo/", endpoint, keys });
  const server = await listenWebSocket(() => sluice.attach(create(), { binary: binaryReads }), {
    binary: {},
  });
  onTestFinished(() => server.close());
  const { url } = server;
  const client = new Client({ name: "app", version: "1.0.0" });

  // #region binary
  const { binaryContent, readBinary } = await import("@sluice/binary-transfer/client");

  const transport = createWebSocketTransport(url, { binary: {} });
  await client.connect(transport);
  const { body, transferMode } = await readBinary(client, "files://demo/a.txt");

  /** An argument for a tool; nothing of it is in the JSON. */
  const pictureOf = (bytes: Uint8Array) =>
    binaryContent(transport.outlet!, { type: "image", mimeType: "image/png", bytes });
  // #endregion

  expect(await new Response(body).text()).toBe("hello");
  expect(transferMode).toBe("binary");
  expect(await pictureOf(Buffer.from("x"))).toMatchObject({ type: "image", data: "" });
  await client.close();
});

test("a browser connects with a ticket, as the README has it", async () => {
  const { listenWebSocket } = await import("@sluice/transport-ws");

  // #region tickets
  const { createTickets } = await import("@sluice/transport-ws");

  const tickets = createTickets({ keys, state, url: "wss://api.example.com/mcp" });

  /** Your route for `POST /ticket`, behind the middleware that verified the bearer token. */
  async function issueTicket(authInfo: AuthInfo): Promise<Response> {
    const ticket = await tickets.issue(authInfo);
    return Response.json(ticket, { headers: { "cache-control": "no-store" } });
  }
  // #endregion

  const server = await listenWebSocket(create, {
    tickets,
    url: "wss://api.example.com/mcp",
    hosts: ["127.0.0.1"],
  });
  onTestFinished(() => server.close());
  const auth = await verifier.verifyAccessToken("token-of-ann");
  const url = `ws://127.0.0.1:${server.port}/mcp`;
  vi.stubGlobal("WebSocket", WebSocket);
  vi.stubGlobal("fetch", () => issueTicket(auth));
  onTestFinished(() => void vi.unstubAllGlobals());

  // #region browser
  const { createWebSocketTransport } = await import("@sluice/transport-ws/client");

  const transport = createWebSocketTransport(url, {
    async ticket() {
      const headers = { authorization: `Bearer ${getAccessToken()}` };
      const response = await fetch("/ticket", { method: "POST", headers });
      const { ticket } = (await response.json()) as { ticket: string };
      return ticket;
    },
    token: getAccessToken,
  });
  // #endregion

  // in Node it is a socket of ws, in a page the one of the platform
  const { createWebSocketTransport: createPortable } = await import("../src/client.ts");
  const ticket = async () =>
    ((await (await issueTicket(auth)).json()) as { ticket: string }).ticket;
  for (const each of [transport, createPortable(url, { ticket })]) {
    await each.start();
    expect(server.connections).toBe(1);
    await each.close();
    await vi.waitFor(() => expect(server.connections).toBe(0));
  }
});
