// The server of docs/recipes/archive.md: run by e2e/recipes.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { archiveProvider } from "@sluice/archive";
import { createSluice } from "sluice";
import { createFsBackend, serve } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
const zip = archiveProvider(sluice.host, { of: "files://local/", format: "zip" });
sluice.provide("archives://local/{+folder}.zip", zip);
await serve(sluice, () =>
  sluice.attach(new McpServer({ name: "photos", version: "1.0.0" }), { tools: true }),
);
// #endregion
