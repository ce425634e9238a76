import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { streamResource } from "@sluice/client";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { describe, expect, onTestFinished, test } from "vitest";
import { adapted, documentedSite, hasNginx, startNginx } from "../../../e2e/bed/nginx.ts";
import { connect } from "./connect.ts";
import { initialize, rawSocket } from "./raw-socket.ts";
import { bearer, bytes, principal, uri } from "./serve.ts";

async function listening(
  server = createServer(),
): Promise<{ server: typeof server; port: number }> {
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  onTestFinished(async () => {
    server.closeAllConnections();
    await new Promise((resolve) => server.close(resolve));
  });
  return { server, port: (server.address() as AddressInfo).port };
}

/** nginx with the configuration of the documentation, at other ports. */
async function startDocumented(socketPort: number, bytesPort: number): Promise<number> {
  const documented = await documentedSite("guides/transports/websocket.md");
  const nginx = await startNginx((port) =>
    adapted(documented, {
      "listen 8000;": `listen 127.0.0.1:${port};`,
      "127.0.0.1:8001": `127.0.0.1:${socketPort}`,
      "127.0.0.1:8002": `127.0.0.1:${bytesPort}`,
    }),
  );
  onTestFinished(() => nginx.close());
  return nginx.port;
}

describe.skipIf(!hasNginx)("nginx, as documented", () => {
  test("the socket and the bytes, in processes that share only keys, have one public address", async () => {
    const socket = await listening();
    const downloads = await listening();
    const port = await startDocumented(socket.port, downloads.port);
    const options: SluiceOptions = {
      storage: createMemoryBackend({ "a.bin": bytes }),
      baseUri: "files://demo/",
      endpoint: `http://127.0.0.1:${port}/mcp`,
      keys: [generateKey()],
      principal,
    };
    const sluice = createSluice(options);
    const url = `ws://127.0.0.1:${port}/mcp`;
    const handler = createWebSocketHandler(
      () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
      { url, bearer },
    );
    socket.server.on("upgrade", (request, raw, head) => void handler.upgrade(request, raw, head));
    const serveBytes = toNodeHandler(createSidecar(createSluice(options)));
    downloads.server.on("request", (request, response) => {
      const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1] ?? "";
      const auth = { token, clientId: "app", scopes: [], extra: { sub: token } };
      serveBytes(Object.assign(request, { auth }), response);
    });

    const { client } = await connect("SDK v2, modern", url, { token: "ann" });
    const stream = await streamResource(client, uri);
    expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);

    // the close code of a drain comes through
    const headers = { authorization: "Bearer ann" };
    const raw = await rawSocket(port, { headers });
    raw.text(initialize);
    await raw.json();
    const closed = handler.close({ restart: true });
    expect(await raw.closed()).toBe(1012);
    raw.socket.destroy();
    await client.close();
    await closed;

    // and so does a refusal
    expect((await rawSocket(port, { headers })).status).toBe(503);
    expect((await rawSocket(port, { headers: { ...headers, host: "evil.example" } })).status).toBe(
      421,
    );
  });
});
