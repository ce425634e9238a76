// The server of docs/recipes/csv.md: run by e2e/recipes.test.ts.
// #region server
import { createInterface } from "node:readline";
import { Readable } from "node:stream";
import { McpServer } from "@modelcontextprotocol/server";
import { createSluice, createUploads } from "sluice";
import { createFsBackend, serve } from "sluice/node";

const sluice = createSluice({ storage: createFsBackend({ root: "./files" }) });
const storage = createFsBackend({ root: "./uploads", writable: true });
const uploads = createUploads(sluice, { storage, scan: "none" });
const create = () =>
  uploads.registerTool(
    sluice.attach(new McpServer({ name: "tables", version: "1.0.0" })),
    "describe_table",
    {
      message: "Which table shall I read?",
      fields: { table: { type: "file", title: "Table", accept: ["text/csv"] } },
    },
    async ({ files }) => {
      const { body } = await files.table.open();
      let head = "";
      let rows = 0;
      for await (const line of createInterface({ input: Readable.from(body) }))
        if (rows++ === 0) head = line;
      return `${files.table.name}: ${rows - 1} rows of ${head}`;
    },
  );
await serve(sluice, create, { uploads });
// #endregion
