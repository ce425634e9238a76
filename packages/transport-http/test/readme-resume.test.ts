import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";

test("the ways to turn it on that the page shows", async () => {
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint: "http://127.0.0.1:9/mcp",
    keys: [generateKey()],
    onWarning: () => {},
  });
  const sessions = { fetch: async () => new Response("a session's") };
  const createServer = () => new McpServer({ name: "demo", version: "1.0.0" });
  // #region server
  const { createMemoryEventStore } = await import("@sluice/core");
  const { withSluice } = await import("@sluice/transport-http");
  const { withResume } = await import("@sluice/transport-http/resume");

  const resumed = withResume(sessions, sluice, { store: createMemoryEventStore() });
  const handler = withSluice(resumed, sluice);
  // #endregion
  const response = await handler.fetch(new Request("http://127.0.0.1:9/mcp"));
  expect(await response.text()).toBe("a session's");
  const store = createMemoryEventStore();
  // #region rerun
  const restartable = withResume(sessions, sluice, {
    store,
    rerun: {
      allows: ({ method, params }) => method === "tools/call" && params?.["name"] === "survey",
      server: () => createServer(),
    },
  });
  // #endregion
  await restartable.close();
  await resumed.close();
});
