// #region client
import { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";
import { withResumableFetch } from "@sluice/resume/client";

export async function connect(url: string): Promise<Client> {
  const client = new Client({ name: "me", version: "1.0.0" });
  const transport = new StreamableHTTPClientTransport(new URL(url), {
    fetch: withResumableFetch(),
  });
  await client.connect(transport);
  return client;
}
// #endregion
import { expect, test } from "vitest";
import { startRawServer } from "../../client/test/raw-server.ts";

test("the client of the page connects, even to a server without links", async () => {
  await using server = await startRawServer({});
  const client = await connect(server.url);
  expect(client.getServerVersion()?.name).toBe("raw");
  await client.close();
});
