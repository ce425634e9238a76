import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { bodyOf, headerOf } from "./redeeming.ts";
import { talkTo } from "./talking.ts";

const base: SluiceOptions = {
  storage: createMemoryBackend({ "genomics.parquet": "PAR1", "readme.txt": "small" }),
  baseUri: "hipaa://trial-OncoDrug-734/",
  endpoint: "http://127.0.0.1:3000/mcp",
  keys: "ephemeral",
  onWarning: () => {},
};

test("the guide's example of a registered resource runs", async () => {
  const renderReport = async (): Promise<string> => "day,visits\n1,20\n";
  const sluice = createSluice(base);

  // #region registered
  function createServer(): McpServer {
    const mcp = new McpServer({ name: "acme", version: "1.0.0" });
    mcp.registerResource(
      "visits",
      "report://visits.csv",
      { mimeType: "text/csv" },
      async (uri) => ({
        contents: [{ uri: uri.href, mimeType: "text/csv", text: await renderReport() }],
      }),
    );
    return sluice.attach(mcp, { stream: "registered" });
  }
  // #endregion

  expect(createServer().server.getCapabilities().resources).toMatchObject({ stream: true });
  const talk = talkTo(
    sluice,
    (mcp) => {
      mcp.registerResource("visits", "report://visits.csv", {}, async (uri) => ({
        contents: [{ uri: uri.href, mimeType: "text/csv", text: await renderReport() }],
      }));
    },
    undefined,
    { stream: "registered" },
  );
  const params = { uri: "report://visits.csv" };
  const { reply } = (await talk("modern", "resources/stream", { params })).slot;
  expect(headerOf(reply!, "content-type")).toBe("text/csv");
  expect(await bodyOf(reply!)).toBe("day,visits\n1,20\n");
});

test("the guide's example of metadata runs", async () => {
  // #region metadata
  const sluice = createSluice({
    ...base,
    describe({ key, size = 0 }) {
      if (key.endsWith(".parquet"))
        return {
          mimeType: "application/parquet",
          title: "Phase III Genomics Data",
          audience: ["assistant"],
          priority: 0.9,
        };
      return { streamable: size > 64 * 1024 };
    },
  });
  // #endregion

  const { resources } = (await talkTo(sluice)("modern", "resources/list")).message.result;
  expect(resources).toMatchObject([
    { mimeType: "application/parquet", title: "Phase III Genomics Data", streamable: true },
    { name: "readme.txt", mimeType: "text/plain" },
  ]);
  expect(resources[1]).not.toHaveProperty("streamable");
});
