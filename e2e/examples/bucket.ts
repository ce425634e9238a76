// The server of docs/recipes/s3.md: run by e2e/recipes.test.ts.
// #region server
import { McpServer } from "@modelcontextprotocol/server";
import { createS3Backend } from "@sluice/storage-s3";
import { createSluice } from "sluice";
import { serve } from "sluice/node";

const [, , bucket = "my-bucket", endpoint] = process.argv;
const storage = createS3Backend({ bucket, prefix: "reports", ...(endpoint && { endpoint }) });
const sluice = createSluice({
  storage,
  delivery: "redirect",
  redirectOrigins: "storage",
});
await serve(sluice, () =>
  sluice.attach(new McpServer({ name: "bucket", version: "1.0.0" }), { tools: true }),
);
// #endregion
