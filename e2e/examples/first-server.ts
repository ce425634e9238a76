// The server of the README: run by e2e/examples.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice } from "sluice";
import { createFsBackend, serve } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
await serve(sluice, () =>
  sluice.attach(new McpServer({ name: "demo", version: "1.0.0" }), { tools: true }),
);
// #endregion

// #region log
console.log(`Listening at ${sluice.endpoint.url}`);
// #endregion
