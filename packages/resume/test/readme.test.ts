import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { rerunCalls } from "@sluice/resume/rerun";
import { expect, test } from "vitest";
import { freePort } from "../../../e2e/bed/listen.ts";
import { askForeign } from "../../transport-http/test/foreign-requests.ts";

test("the ways to turn it on that the page shows", async () => {
  const endpoint = `http://127.0.0.1:${await freePort()}/mcp`;
  const sluice = createSluice({ storage: createMemoryBackend(), endpoint });
  const createServer = (): McpServer => {
    const mcp = new McpServer({ name: "demo", version: "1.0.0" });
    mcp.registerTool("survey", {}, async () => ({ content: [] }));
    return sluice.attach(mcp);
  };

  // #region server
  const { createResume } = await import("@sluice/resume");
  const { serve } = await import("@sluice/transport-http/node");

  const resume = createResume();
  const running = await serve(sluice, createServer, { resume });
  // #endregion

  const post = (message: object, session = {}): Promise<Response> =>
    fetch(running.url, {
      method: "POST",
      headers: {
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
        ...session,
      },
      body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }),
    });
  const protocolVersion = "2025-11-25";
  const clientInfo = { name: "client", version: "1.0.0" };
  const initialize = { protocolVersion, capabilities: {}, clientInfo };
  const opened = await post({ method: "initialize", params: initialize });
  await opened.text();
  const session = {
    "mcp-session-id": opened.headers.get("mcp-session-id"),
    "mcp-protocol-version": protocolVersion,
  };
  const called = await post({ method: "tools/call", params: { name: "survey" } }, session);
  expect(await called.text()).toMatch(/^id: /m);
  expect((await askForeign(endpoint)).wrong).toEqual([]);
  await running.close({ deadlineMs: 0 });

  // #region rerun
  const restartable = createResume({
    rerun: rerunCalls({
      allows: ({ method, params }) => method === "tools/call" && params?.["name"] === "survey",
      server: () => createServer(),
    }),
  });
  // #endregion
  const sessions = { fetch: async () => new Response("a session's") };
  expect(restartable.wrap(sessions, sluice, {}).router.routes("/mcp/resume/x")?.kind).toBe(
    "resume",
  );
  await restartable.close();
});
