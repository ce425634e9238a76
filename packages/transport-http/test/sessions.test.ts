import { randomUUID } from "node:crypto";
import { McpServer, WebStandardStreamableHTTPServerTransport } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { expect, test } from "vitest";

const uri = "files://demo/a.bin";
const endpoint = "http://127.0.0.1:9/mcp";

/** A legacy endpoint with sessions, as hosts wire it by hand over the SDK's transport. */
function createSessionful(options: Partial<SluiceOptions> = {}) {
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": "0123456789" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
  const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();
  const mcp = {
    async fetch(request: Request, mcpOptions?: { parsedBody?: unknown }): Promise<Response> {
      const known = transports.get(request.headers.get("mcp-session-id") ?? "");
      if (known) return known.handleRequest(request, mcpOptions);
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (id) => void transports.set(id, transport),
      });
      await sluice.attach(new McpServer({ name: "s", version: "1" })).connect(transport);
      return transport.handleRequest(request, mcpOptions);
    },
  };
  const handler = withSluice(mcp, sluice);
  const fetch = (request: Request): Promise<Response> => handler.fetch(request);
  // sees no `initialize` of a session, as another process that adopts it
  const adopting = withSluice(mcp, sluice);
  const send = (
    method: string,
    params: object,
    headers: Record<string, string> = {},
    by: Pick<typeof handler, "fetch"> = handler,
  ) =>
    by.fetch(
      new Request(endpoint, {
        method: "POST",
        headers: {
          "content-type": "application/json",
          accept: "application/json, text/event-stream",
          ...headers,
        },
        body: JSON.stringify({ jsonrpc: "2.0", id: 1, method, params }),
      }),
    );
  /** Opens a session; gives its headers. */
  const start = async (capabilities: object) => {
    const response = await send("initialize", {
      protocolVersion: "2025-11-25",
      clientInfo: { name: "c", version: "1" },
      capabilities,
    });
    await response.text();
    return {
      "mcp-session-id": response.headers.get("mcp-session-id")!,
      "mcp-protocol-version": "2025-11-25",
    };
  };
  return { fetch, send, start, adopting };
}

test("capabilities of the session count, also in the literal field that the SDK drops", async () => {
  const { send, start } = createSessionful();
  for (const capabilities of [
    { resourceStreaming: {} },
    { extensions: { "dev.sluice/resource-streaming": {} } },
  ]) {
    const response = await send("resources/stream", { uri }, await start(capabilities));
    expect([response.headers.get("mcp-resource-uri"), await response.text()]).toEqual([
      uri,
      "0123456789",
    ]);
    expect(response.headers.get("mcp-session-id")).not.toBeNull();
  }
  const small = await start({ resourceStreaming: { maxStreamSize: 9 } });
  expect(await (await send("resources/stream", { uri }, small)).json()).toMatchObject({
    error: { code: -32004, data: { reason: "too_large" } },
  });
  // what is remembered of 10,000 sessions must not fill the memory
  const endless = { resourceStreaming: { padding: "x".repeat(1_024) } };
  for (const session of [await start({}), await start(endless)])
    expect(await (await send("resources/stream", { uri }, session)).json()).toMatchObject({
      error: { code: -32600, data: { reason: "client_capability" } },
    });
});

test("a process that did not see the session opened answers with a download URL, not with a refusal", async () => {
  const { send, start, adopting } = createSessionful();
  const session = await start({ resourceStreaming: {} });
  const response = await send("resources/stream", { uri }, session, adopting);
  expect(response.headers.get("mcp-resource-uri")).toBeNull();
  expect(await response.json()).toMatchObject({ result: { uri, downloadUrl: expect.any(String) } });
});

test("a download URL of a session works in that session only, and dies with it", async () => {
  const { fetch, send, start } = createSessionful({ delivery: "downloadUrl" });
  const session = await start({ resourceStreaming: {} });
  const other = await start({ resourceStreaming: {} });
  const { result } = (await (await send("resources/stream", { uri }, session)).json()) as any;
  expect(result._meta["dev.sluice/resource-streaming"]).toMatchObject({
    auth: "bound",
    sessionBound: true,
  });
  const status = async (headers: Record<string, string>) =>
    (await fetch(new Request(result.downloadUrl, { headers }))).status;
  expect(await status(session)).toBe(200);
  expect(await status(other)).toBe(404);
  expect(await status({})).toBe(401);
  const ended = await fetch(new Request(endpoint, { method: "DELETE", headers: session }));
  expect(ended.ok).toBe(true);
  expect(await status(session)).toBe(404);
});
