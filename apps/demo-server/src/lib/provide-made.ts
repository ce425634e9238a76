// Resources of the example server that are stored nowhere: a table of its files, and all of them as an archive.
import { archiveProvider } from "@sluice/archive";
import type { Sluice } from "@sluice/server";

const folder = "files://demo/";

/** URI of a table with a line for each file. */
export const reportUri = "reports://demo/files.csv";

/** URI of an archive of all files. */
export const archiveUri = "archives://demo/all.zip";

/** Provides both. Each caller gets the files that it may list. */
export function provideMade(sluice: Sluice): void {
  sluice.provide(reportUri, {
    title: "All files of the demo",
    mimeType: "text/csv",
    async *open({ principal, signal }) {
      yield "file,bytes,modified\n";
      for await (const { info } of sluice.host.walk({ uri: folder, principal, signal })) {
        const name = `"${info.key.replaceAll('"', '""')}"`;
        yield `${name},${info.size ?? ""},${info.lastModified?.toISOString() ?? ""}\n`;
      }
    },
  });
  sluice.provide(archiveUri, archiveProvider(sluice.host, { of: folder, format: "zip" }));
}
