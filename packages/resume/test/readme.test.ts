import { McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { rerunCalls } from "@sluice/resume/rerun";
import { expect, test } from "vitest";

// #region server
import { createResume, type Resume } from "@sluice/resume";
import type { Sluice } from "@sluice/server";
import { createHandler, type McpFetchHandler, type SluiceHandler } from "@sluice/transport-http";

export function serve(sessions: McpFetchHandler, sluice: Sluice): [SluiceHandler, Resume] {
  const resume = createResume();
  return [createHandler({ behind: sessions, sluice, resume }), resume];
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
  const [handler, resume] = serve(sessions, sluice);
  const response = await handler.fetch(new Request("http://127.0.0.1:9/mcp"));
  expect(await response.text()).toBe("a session's");
  // #region rerun
  const restartable = createResume({
    rerun: rerunCalls({
      allows: ({ method, params }) => method === "tools/call" && params?.["name"] === "survey",
      server: () => createServer(),
    }),
  });
  // #endregion
  expect(restartable.wrap(sessions, sluice, {}).router.routes("/mcp/resume/x")?.kind).toBe(
    "resume",
  );
  await restartable.close();
  await resume.close();
});
