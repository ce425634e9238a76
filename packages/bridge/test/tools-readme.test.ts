// #region tools
import { createHttpUpstream, createStdioHost, openFileTools, runBridge } from "@sluice/bridge";

/** A bridge to the server at `url` with tools that save below one folder and send from another. */
export async function bridgeFiles(url: URL, saveTo: string, sendFrom: string): Promise<void> {
  const tools = await openFileTools({
    server: { kind: "http", name: url.origin, url },
    saveTo,
    sendFrom: [sendFrom],
  });
  const upstream = createHttpUpstream({ endpoint: url, wrapFetch: tools.wrapFetch });
  await runBridge({ host: createStdioHost(), upstream: tools.watch(upstream), hooks: tools.hooks });
  await tools.close();
}
// #endregion
import { expect, test } from "vitest";
import { makeFolders } from "./filing.ts";

test("a folder that is not there is said before anything begins", async () => {
  const { save, send } = makeFolders();
  const begun = bridgeFiles(new URL("http://127.0.0.1:9/mcp"), `${save}/absent`, send);
  await expect(begun).rejects.toMatchObject({ code: "not_found" });
});
