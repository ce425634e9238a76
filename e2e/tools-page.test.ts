// The answers that docs/guides/server/tools.md shows are those of the tools, but for what is random.
import { readFileSync } from "node:fs";
import { Client, InMemoryTransport } from "@modelcontextprotocol/client";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { expect, onTestFinished, test } from "vitest";

const page = readFileSync(new URL("../docs/guides/server/tools.md", import.meta.url), "utf8");
const shown = [...page.matchAll(/^```json\n([\s\S]*?)^```$/gm)].map(([, code]) =>
  JSON.parse(code!),
);

/** Tokens, times and versions differ from run to run. */
function masked(answer: unknown): unknown {
  const text = JSON.stringify(answer)
    .replaceAll(/\/d\/[\w-]{32}/g, "/d/TOKEN")
    .replaceAll(/\d{4}-\d\d-\d\dT[\d:.]+Z/g, "TIME")
    .replaceAll(/(etag(?:: |":"))[\w-]+/g, "$1ETAG");
  return JSON.parse(text);
}

test("the page about tools shows what a model sees", async () => {
  const notes = "one\ntwo\nthree\n".padEnd(9_174, "more\n");
  const big = new Uint8Array(5_000_000);
  const sluice = createSluice({
    storage: wrapBackend(createMemoryBackend({ "notes.txt": notes, "big.bin": big }), {
      // a folder knows no digests
      describe: (describe) => async (key, options) => {
        const { digests: _digests, ...info } = await describe(key, options);
        return info;
      },
    }),
    baseUri: "files://demo/",
    endpoint: "https://h/mcp",
    keys: "ephemeral",
    anonymous: true,
    links: {},
    onWarning() {},
  });
  const mcp = sluice.attach(new McpServer({ name: "demo", version: "1" }), { tools: true });
  const client = new Client({ name: "demo", version: "1" });
  const [ours, theirs] = InMemoryTransport.createLinkedPair();
  onTestFinished(() => client.close());
  await Promise.all([mcp.connect(ours), client.connect(theirs)]);
  const ask = async (name: string, args: Record<string, unknown>) => {
    const { content, structuredContent } = await client.callTool({ name, arguments: args });
    return masked({ content, structuredContent });
  };
  const [text, link] = shown;
  const range = "lines 1-3";
  expect(masked(text)).toEqual(await ask("read_file", { uri: "files://demo/notes.txt", range }));
  const asked = await ask("get_download_link", { uri: "files://demo/big.bin" });
  expect(masked(link)).toEqual(asked);
  expect(JSON.stringify(asked)).toContain("/d/TOKEN");
});
