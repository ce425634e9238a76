import { createServer } from "node:http";
import { Client } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listenWebSocket } from "@sluice/transport-ws";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { createUploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { createFileSender } from "@sluice/client/send";
import { expect, onTestFinished, test } from "vitest";
import { listen } from "../bed/listen.ts";

const verifier = {
  async verifyAccessToken(token: string) {
    const expiresAt = Math.floor(Date.now() / 1_000) + 3_600;
    return { token, clientId: "test", scopes: [], expiresAt, extra: { subject: token } };
  },
};

/** Messages over WebSocket, files to an HTTP listener beside it that shares keys and storage alone. */
async function startSite(): Promise<{ url: string; endpoint: string }> {
  const http = createServer();
  const listening = await listen(http);
  const endpoint = `${listening.origin}/bytes`;
  const [keys, storage] = [[generateKey()], createMemoryBackend()];
  const create = () => {
    const sluice = createSluice({
      storage: createMemoryBackend(),
      baseUri: "files://site/",
      endpoint,
      keys,
      principal: ({ authInfo }) =>
        authInfo && { issuer: "i", subject: String(authInfo.extra?.["subject"]), clientId: "c" },
    });
    const uploads = createUploads(sluice, { storage, scan: "none" });
    onTestFinished(() => uploads.close());
    return { sluice, uploads };
  };
  const beside = create();
  const handle = toNodeHandler(withUploads(createSidecar(beside.sluice), beside.uploads));
  http.on("request", (request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const auth = token && { token, clientId: "test", scopes: [], extra: { subject: token } };
    handle(auth ? Object.assign(request, { auth }) : request, response);
  });
  const { sluice, uploads } = create();
  const server = await listenWebSocket(
    () => {
      const mcp = new McpServer({ name: "site", version: "1.0.0" });
      mcp.registerTool("look", {}, async (ctx) => {
        const outcome = await uploads.ask(
          {
            message: "A text, please",
            fields: { text: { type: "file" } },
          },
          { mcp, ctx },
        );
        if (outcome.action === "ask") return outcome.result;
        if (outcome.action !== "accept") return { content: [] };
        const { body } = await outcome.files.text.open();
        return { content: [{ type: "text", text: await new Response(body).text() }] };
      });
      return sluice.attach(mcp);
    },
    { bearer: { verifier } },
  );
  onTestFinished(async () => {
    await server.close({ deadlineMs: 0 });
    await listening.close();
  });
  return { url: server.url, endpoint };
}

test.each(["auto", "legacy"] as const)(
  "files of a WebSocket session go by HTTP to the listener beside it: %s",
  async (mode) => {
    const { url, endpoint } = await startSite();
    const sender = createFileSender({
      endpoint,
      token: "ann",
      onFilesRequested: () => ({
        action: "accept",
        files: { text: [{ blob: new Blob(["beside the socket"]), name: "a.txt" }] },
      }),
    });
    const client = new (sender.extend(Client))(
      { name: "test", version: "1.0.0" },
      { versionNegotiation: { mode } },
    );
    await client.connect(
      createWebSocketTransport(url, { token: "ann", downloads: new URL(endpoint).origin }),
    );
    onTestFinished(() => client.close());
    const { content } = await client.callTool({ name: "look" });
    expect(content).toEqual([{ type: "text", text: "beside the socket" }]);
  },
);
