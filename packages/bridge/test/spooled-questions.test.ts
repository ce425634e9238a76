import { existsSync, readdirSync } from "node:fs";
import { join } from "node:path";
import { expect, test } from "vitest";
import { createHost } from "./bridged.ts";
import { callTool, handWritten, hostOf, makeFolders } from "./filing.ts";

const long = "x".repeat(100_000);

/** A server of 2026-07-28 that has the host's model read a long text, and one of its tool's own. */
async function samplingServer(): Promise<URL> {
  const messages = [{ role: "user", content: { type: "text", text: long } }];
  const asks = { method: "sampling/createMessage", params: { messages, maxTokens: 10 } };
  return handWritten(
    ({ method, params }) => {
      const whole = { resultType: "complete", ttlMs: 0, cacheScope: "private" };
      if (method === "server/discover")
        return {
          result: {
            ...whole,
            supportedVersions: ["2026-07-28"],
            capabilities: { tools: {} },
            serverInfo: { name: "asking", version: "1" },
          },
        };
      if (method === "tools/list") return { result: { ...whole, tools: [] } };
      if (method !== "tools/call") return undefined;
      if (params["inputResponses"] === undefined)
        return { result: { resultType: "input_required", inputRequests: { q: asks } } };
      return { result: { ...whole, content: [{ type: "text", text: "done" }] } };
    },
    undefined,
    true,
  );
}

test.each(["legacy", "modern"] as const)(
  "a long text that a server has the model of a %s host read comes as it is, and leaves no file",
  async (revision) => {
    const { save } = makeFolders();
    const host = createHost(revision);
    const read: unknown[] = [];
    host.setRequestHandler("sampling/createMessage", ({ params }) => {
      read.push(params.messages[0]?.content);
      return { model: "m", role: "assistant", content: { type: "text", text: "read" } };
    });
    const client = await hostOf(await samplingServer(), { saveTo: save }, host);
    expect((await callTool(client, "any")).text).toBe("done");
    expect(read).toEqual([{ type: "text", text: long }]);
    expect(existsSync(join(save, "spooled")) ? readdirSync(join(save, "spooled")) : []).toEqual([]);
  },
);
