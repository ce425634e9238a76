// A resource of the example server that is stored nowhere: the list of its files as a table.
import type { Sluice } from "@sluice/server";

/** URI of the report. */
export const reportUri = "reports://demo/files.csv";

/** Provides the report: a line for each file that the caller may list. */
export function provideReport(sluice: Sluice): void {
  sluice.provide(reportUri, {
    title: "All files of the demo",
    mimeType: "text/csv",
    async *open({ principal, signal }) {
      yield "file,bytes,modified\n";
      const files = sluice.host.walk({ uri: "files://demo/", principal, signal });
      for await (const { info } of files) {
        const name = `"${info.key.replaceAll('"', '""')}"`;
        yield `${name},${info.size ?? ""},${info.lastModified?.toISOString() ?? ""}\n`;
      }
    },
  });
}
