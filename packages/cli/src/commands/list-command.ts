import { formatUnlisted, UnlistedTally } from "@sluice/storage/internal";
import { connect, type ServerCallOptions } from "../server-calls/connect.ts";
import {
  listResources,
  formatTableRow,
  tableHeading,
  type ListedResource,
} from "../server-calls/list-resources.ts";
import { note, print, printable, printableJson } from "../terminal/print.ts";

/** Options of `sluice ls`. */
export interface ListCommandOptions extends ServerCallOptions {
  /** One JSON object a line. */
  readonly json?: boolean;
}

/**
 * `sluice ls`: every resource of a server, page by page, so that a long list begins at once and
 * takes no memory. A table on a terminal, else one URI a line; with `json` one object a line. A last line on stderr tells
 * what the server has and does not list.
 */
export async function listCommand(server: string, options: ListCommandOptions): Promise<void> {
  const connection = await connect(server, options);
  try {
    const format = formatFor(options);
    let first = true;
    const unlisted = new UnlistedTally();
    for await (const resource of listResources(connection, unlisted)) {
      if (first && format === formatTableRow) await print(tableHeading);
      first = false;
      await print(format(resource));
    }
    const counts = unlisted.take();
    if (counts) note(formatUnlisted(counts));
  } finally {
    await connection.client.close();
  }
}

function formatFor({ json }: ListCommandOptions): (resource: ListedResource) => string {
  if (json) return (resource) => printableJson(resource);
  return process.stdout.isTTY ? formatTableRow : ({ uri }) => printable(uri);
}
