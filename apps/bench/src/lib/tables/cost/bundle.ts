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

/** What a page loads. */
export const bundle: Experiment = {
  id: "bundle",
  title: "Size of a browser bundle",
  async run(): Promise<Table> {
    const rows: Row[] = [];
    for (const [name, code] of Object.entries(entries)) {
      const { atOnce, later } = await bundled(code);
      const gzip = summarise([gzipBytes(atOnce) / KiB]);
      const parts = summarise([later.reduce((sum, part) => sum + gzipBytes(part), 0) / KiB]);
      rows.push({ name, cells: { gzip, plain: summarise([atOnce.length / KiB]), parts } });
    }
    return {
      how: "Vite in its production mode, with the names that a page uses and all that they import; gzip at level 9. Parts are loaded by a page that needs them, each by itself: SHA-256 where the server promised one, the meaning of refusals, and types of files without any take the most.",
      columns: [
        { key: "gzip", title: "at once, gzip KiB", digits: 1, bars: true },
        { key: "plain", title: "at once, minified KiB", digits: 1 },
        { key: "parts", title: "parts, gzip KiB", digits: 1 },
      ],
      rows,
      reach: [
        {
          claim: "downloads at once, gzip KiB",
          atMost: 15,
          got: rows[0]?.cells["gzip"],
        },
      ],
    };
  },
};

const gzipBytes = (code: string): number => gzipSync(code, { level: 9 }).byteLength;

/** What Vite makes of `program`: what a page loads at once, and each part that it may load later. */
async function bundled(
  program: string,
): Promise<{ readonly atOnce: string; readonly later: readonly string[] }> {
  const id = "virtual:page";
  const page: Plugin = {
    name: "page",
    resolveId: (source) => (source.endsWith(id) ? "\0page.js" : undefined),
    load: (source) => (source === "\0page.js" ? program : undefined),
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
  const chunks = made.output.filter((file) => file.type === "chunk");
  const first = chunks.filter(({ isEntry }) => isEntry);
  const names = new Set(first.flatMap(({ fileName, imports }) => [fileName, ...imports]));
  const codesOf = (isFirst: boolean): string[] =>
    chunks.filter(({ fileName }) => names.has(fileName) === isFirst).map(({ code }) => code);
  return { atOnce: codesOf(true).join("\n"), later: codesOf(false) };
}
