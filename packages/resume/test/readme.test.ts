import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { rerunCalls } from "@sluice/resume/rerun";
import { expect, test } from "vitest";

// #region server
import { createMemoryEventStore } from "@sluice/state";
import { withResume, type ResumeHandler } from "@sluice/resume";
import type { Sluice } from "@sluice/server";
import { withSluice, type McpFetchHandler, type SluiceHandler } from "@sluice/transport-http";

export function serve(sessions: McpFetchHandler, sluice: Sluice): [SluiceHandler, ResumeHandler] {
  const resumed = withResume(sessions, sluice, { store: createMemoryEventStore() });
  return [withSluice(resumed, sluice), resumed];
}
// #endregion

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
  const [handler, resumed] = serve(sessions, sluice);
  const response = await handler.fetch(new Request("http://127.0.0.1:9/mcp"));
  expect(await response.text()).toBe("a session's");
  const store = createMemoryEventStore();
  // #region rerun
  const restartable = withResume(sessions, sluice, {
    store,
    rerun: rerunCalls({
      allows: ({ method, params }) => method === "tools/call" && params?.["name"] === "survey",
      server: () => createServer(),
    }),
  });
  // #endregion
  await restartable.close();
  await resumed.close();
});
