// The server of the READMEs of the packages: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "@sluice/server";
import { createFsBackend } from "@sluice/storage-fs";
import { serve } from "@sluice/transport-http/node";

const sluice = createSluice({
  storage: createFsBackend({ root: "./files" }),
  baseUri: "files://demo/",
});
await serve(sluice, () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })));
// #endregion
