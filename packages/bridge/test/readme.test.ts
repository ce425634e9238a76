import { mkdtempSync, rmSync } from "node:fs";
import { createServer } from "node:http";
import { once } from "node:events";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */
// #region spool
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { openSpoolFolder, rewriteSpooled, spooledFetch } from "@sluice/bridge/internal";

/** Connects to a server; strings of its answers over 64 KiB go to files below `folder`. */
export async function connect(url: string, folder: string): Promise<Client> {
  const spooled = new Map();
  const spoolFolder = await openSpoolFolder({
    folder,
    maxBytes: 10 * 2 ** 30,
    maxAgeMs: 24 * 3_600_000,
  });
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: spooledFetch(fetch, {
      target: spoolFolder,
      spooled,
      inlineBytes: 65_536,
      maxBytes: 2 ** 30,
    }),
  });
  const client = new Client({ name: "host", version: "1.0.0" });
  await client.connect(transport);
  // answers to calls that are made from here on
  const { onmessage } = transport;
  transport.onmessage = (message) => onmessage?.(rewriteSpooled(message, spooled));
  return client;
}
// #endregion
import { toNodeHandler } from "@modelcontextprotocol/node";
import { createMcpHandler } from "@modelcontextprotocol/server";
import { expect, onTestFinished, test } from "vitest";
import { createLargeServer } from "./large-server.ts";

test("the README's client gets a path for a large result", async () => {
  const folder = mkdtempSync(join(tmpdir(), "sluice-bridge-"));
  const handle = toNodeHandler(createMcpHandler(createLargeServer));
  const server = createServer((request, response) => void handle(request as never, response));
  onTestFinished(() => {
    server.close().closeAllConnections();
    rmSync(folder, { recursive: true });
  });
  await once(server.listen(0, "127.0.0.1"), "listening");
  const { port } = server.address() as AddressInfo;
  const client = await connect(`http://127.0.0.1:${port}/mcp`, folder);
  const { content } = await client.callTool({ name: "report" });
  expect(JSON.stringify(content)).toContain(join(folder, "spooled", "text-"));
  await client.close();
});
