import type { Client } from "@modelcontextprotocol/client";
import { definedMembers, SluiceError } from "@sluice/core";
import { connect, translating, type ConnectOptions } from "../server-calls/connect.ts";
import { fault, type Advice } from "../server-calls/failure.ts";
import { print } from "../terminal/print.ts";
import { printable, printableJson } from "../terminal/printable.ts";
import { formatTableRow, tableHeading, type ListedResource } from "../terminal/resource-table.ts";

/** Options of `sluice ls`. */
export interface ListCommandOptions extends ConnectOptions {
  /** One JSON object a line. */
  readonly json?: boolean;
}

/**
 * `sluice ls`: every resource of a server, page by page, so that a long list begins at once and
 * takes no memory. A table on a terminal, else one URI a line; with `json` one object a line.
 */
export async function listCommand(server: string, options: ListCommandOptions): Promise<void> {
  const client = await connect(server, options);
  try {
    const format = formatFor(options);
    let first = true;
    for await (const resource of listResources(client, server, options.signal)) {
      if (first && format === formatTableRow) await print(tableHeading);
      first = false;
      await print(format(resource));
    }
  } finally {
    await client.close();
  }
}

function formatFor({ json }: ListCommandOptions): (resource: ListedResource) => string {
  if (json) return (resource) => printableJson(resource);
  return process.stdout.isTTY ? formatTableRow : ({ uri }) => printable(uri);
}

/** Resources of a server in the order of its list, page by page. */
export async function* listResources(
  client: Client,
  server: string,
  signal: AbortSignal,
): AsyncGenerator<ListedResource> {
  let cursor: string | undefined;
  // of every power of two one cursor is remembered, so that circles of any length are found in bounded memory
  let landmark: string | undefined;
  let pages = 0;
  do {
    // not client.listResources(): without a cursor it gathers every page before it answers
    const request = { method: "resources/list" as const, params: cursor ? { cursor } : {} };
    const page = await translating(server, signal, () => client.request(request, { signal })).catch(
      (error: unknown) => {
        throw signal.aborted ? error : (resourcelessFault(client, server) ?? error);
      },
    );
    for (const { uri, name, mimeType, size, annotations } of page.resources) {
      const lastModified = annotations?.lastModified;
      yield definedMembers({ uri, name, mimeType, size, lastModified });
    }
    cursor = page.nextCursor;
    if (cursor !== undefined && cursor === landmark)
      throw new SluiceError("protocol", `${server} gives the same pages again and again`);
    pages += 1;
    if (Number.isInteger(Math.log2(pages))) landmark = cursor;
  } while (cursor !== undefined);
}

/** What a server without resources is called, whatever it answered; `undefined` for one that has some. */
export function resourcelessFault(client: Client, server: string): Advice | undefined {
  if (client.getServerCapabilities()?.resources) return undefined;
  return fault("unsupported", `${server} has no resources`, "name a server that has some");
}
