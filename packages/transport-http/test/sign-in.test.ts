import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { createSessions, withSluice } from "@sluice/transport-http/internal";
import { withResume } from "../../resume/src/internal.ts";
import { describe, expect, onTestFinished, test } from "vitest";

const endpoint = "http://127.0.0.1:9/mcp";
const metadata = "http://127.0.0.1:9/.well-known/oauth-protected-resource/mcp";

type Make = (
  create: () => McpServer,
  sluice: ReturnType<typeof createHouse>["sluice"],
) => McpFetchHandler;

function createHouse() {
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.txt": "hello" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    principal: ({ authInfo }) => authInfo && { issuer: "t", subject: authInfo.token, clientId: "" },
    resourceMetadataUrl: metadata,
    onWarning: () => {},
  });
  let release = (): void => {};
  const create = (): McpServer => {
    const mcp = new McpServer({ name: "s", version: "1" });
    mcp.registerResource("note", "note://open", {}, async (_uri, ctx) => {
      await ctx.mcpReq.notify({
        method: "notifications/message",
        params: { level: "info", data: "soon" },
      });
      await new Promise<void>((resolve) => void (release = resolve));
      return { contents: [{ uri: "note://open", text: "open" }] };
    });
    mcp.server.registerCapabilities({ logging: {} });
    return sluice.attach(mcp);
  };
  return { sluice, create, release: () => release() };
}

const makes: Readonly<Record<string, Make>> = {
  "a server for each request": (create) => createMcpHandler(create),
  "a server for each request, in events": (create) =>
    createMcpHandler(create, { responseMode: "sse" }),
  sessions: (create, sluice) => createSessions(create, sluice),
  "a server for each request, with answers that can be resumed": (create, sluice) =>
    withResume(createMcpHandler(create), sluice),
};

function open(make: Make) {
  const house = createHouse();
  const mcp = make(house.create, house.sluice);
  onTestFinished(async () => (mcp as { close?(): Promise<void> }).close?.());
  const handler = withSluice(mcp, house.sluice);
  const post = (
    body: object,
    { session, who, modern }: { session?: string | undefined; who?: string; modern?: boolean } = {},
  ) => {
    const { method, params = {} } = body as { method: string; params?: { uri?: string } };
    const _meta = modern && {
      "io.modelcontextprotocol/protocolVersion": "2026-07-28",
      "io.modelcontextprotocol/clientInfo": { name: "raw", version: "1" },
      "io.modelcontextprotocol/clientCapabilities": {},
    };
    const request = new Request(endpoint, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": modern ? "2026-07-28" : "2025-11-25",
        ...(modern && { "mcp-method": method, ...(params.uri && { "mcp-name": params.uri }) }),
        ...(session && { "mcp-session-id": session }),
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        ...body,
        params: { ...params, ...(_meta && { _meta }) },
      }),
    });
    return handler.fetch(
      request,
      who === undefined ? {} : { authInfo: { token: who, clientId: "", scopes: [] } },
    );
  };
  async function start(who?: string): Promise<string | undefined> {
    const response = await post(
      {
        method: "initialize",
        params: {
          protocolVersion: "2025-11-25",
          capabilities: {},
          clientInfo: { name: "c", version: "1" },
        },
      },
      who === undefined ? {} : { who },
    );
    await response.text();
    return response.headers.get("mcp-session-id") ?? undefined;
  }
  return { handler, post, start, release: house.release };
}

const calls = [
  { method: "resources/list" },
  { method: "resources/templates/list" },
  { method: "resources/read", params: { uri: "files://demo/a.txt" } },
  { method: "resources/stream", params: { uri: "files://demo/a.txt" } },
  {
    method: "completion/complete",
    params: {
      ref: { type: "ref/resource", uri: "files://demo/{+key}" },
      argument: { name: "key", value: "" },
    },
  },
];

describe.each(Object.entries(makes))("with %s", (_name, make) => {
  test.each([false, true])(
    "a caller without credentials is answered 401 with the challenge, in the modern revision %s",
    async (modern) => {
      const { post, start } = open(make);
      for (const call of calls) {
        const session = modern ? undefined : await start();
        const response = await post(call, { session, modern });
        expect([call.method, response.status]).toEqual([call.method, 401]);
        expect(response.headers.get("www-authenticate")).toBe(
          `Bearer resource_metadata="${metadata}"`,
        );
        expect(await response.json()).toMatchObject({
          id: 1,
          error: { data: { reason: "forbidden" } },
        });
        const signed = await post(calls[0]!, { session, modern, who: "ann" });
        expect([signed.status, await signed.text()]).toEqual([
          200,
          expect.stringContaining("a.txt"),
        ]);
      }
    },
  );
});

describe("with sessions", () => {
  test("a session that was opened without credentials belongs to the first principal that uses it", async () => {
    const { post, start } = open(makes["sessions"]!);
    const session = await start();
    const status = async (who?: string): Promise<number> => {
      const response = await post({ method: "ping" }, { session, ...(who && { who }) });
      await response.text();
      return response.status;
    };
    expect(await status()).toBe(200);
    expect(await status("ann")).toBe(200);
    expect(await status("bob")).toBe(404);
    expect(await status()).toBe(404);
    expect(await status("ann")).toBe(200);
  });

  test("a stream of events that was opened without credentials ends when a principal takes the session", async () => {
    const { handler, post, start } = open(makes["sessions"]!);
    const session = await start();
    const listen = (who?: string): Promise<Response> =>
      handler.fetch(
        new Request(endpoint, {
          headers: { accept: "text/event-stream", "mcp-session-id": session! },
        }),
        who === undefined ? {} : { authInfo: { token: who, clientId: "", scopes: [] } },
      );
    const before = await listen();
    expect(before.status).toBe(200);
    await (await post({ method: "ping" }, { session, who: "ann" })).text();
    expect(await before.text()).toBe("");
    const after = await listen("ann");
    expect(after.status).toBe(200);
    await (await post({ method: "ping" }, { session, who: "ann" })).text();
    let isOver = false;
    const reading = after.text().then(() => (isOver = true));
    await new Promise(setImmediate);
    expect(isOver).toBe(false);
    reading.catch(() => {});
  });

  test("the head of an answer waits for no more than its first message", async () => {
    const { post, start, release } = open(makes["sessions"]!);
    const session = await start();
    const read = { method: "resources/read", params: { uri: "note://open" } };
    const response = await post(read, { session });
    expect(response.status).toBe(200);
    const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
    let text = "";
    while (!text.includes("soon")) text += (await reader.read()).value;
    expect(text).not.toContain("contents");
    release();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) break;
      text += value;
    }
    expect(text).toContain('"text":"open"');
  });
});
