import { gzipSync } from "node:zlib";
import { build, type Plugin } from "vite";
import { KiB } from "../../bench.ts";
import { summarise } from "../../statistics.ts";
import type { Experiment, Row, Table } from "../../table.ts";

/** What a page imports, by name of the row. */
const entries = {
  "Sluice, downloads":
    'export { streamingCapabilities, streamResource, withStreaming } from "@sluice/client";',
  "Sluice, uploads": 'export { createFileSender } from "@sluice/client/uploads";',
  "Sluice, both":
    'export { streamingCapabilities, streamResource, withStreaming } from "@sluice/client";\nexport { createFileSender } from "@sluice/client/uploads";',
  "the SDK's client":
    'export { Client, StreamableHTTPClientTransport } from "@modelcontextprotocol/client";',
};

/** Bytes that a page loads. */
export const bundle: Experiment = {
  id: "bundle",
  title: "Size of a browser bundle",
  async run(): Promise<Table> {
    const rows: Row[] = [];
    for (const [name, code] of Object.entries(entries)) {
      const bytes = await bundled(code);
      const gzip = summarise([gzipSync(bytes, { level: 9 }).byteLength / KiB]);
      rows.push({ name, cells: { gzip, plain: summarise([bytes.byteLength / KiB]) } });
    }
    return {
      how: "Vite in its production mode, with the names that a page uses and all that they import; gzip at level 9.",
      columns: [
        { key: "gzip", title: "gzip KiB", digits: 1, bars: true },
        { key: "plain", title: "minified KiB", digits: 1 },
      ],
      rows,
      reach: [{ claim: "downloads, gzip KiB", atMost: 15, got: rows[0]?.cells["gzip"] }],
    };
  },
};

/** The one file that Vite makes of `code`. */
async function bundled(code: string): Promise<Buffer> {
  const id = "virtual:page";
  const page: Plugin = {
    name: "page",
    resolveId: (source) => (source.endsWith(id) ? "\0page.js" : undefined),
    load: (source) => (source === "\0page.js" ? code : undefined),
  };
  const output = await build({
    root: new URL("../../../..", import.meta.url).pathname,
    configFile: false,
    logLevel: "silent",
    plugins: [page],
    build: {
      write: false,
      minify: true,
      lib: { entry: id, formats: ["es"], fileName: "page" },
      rollupOptions: { output: { minify: true } },
    },
  });
  const [made] = Array.isArray(output) ? output : [output];
  if (made === undefined || !("output" in made)) throw new Error("bench: vite made nothing");
  const chunks = made.output.flatMap((one) => (one.type === "chunk" ? [one.code] : []));
  return Buffer.from(chunks.join("\n"));
}
