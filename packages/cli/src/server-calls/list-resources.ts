import { SluiceError } from "@sluice/core";
import { definedMembers, EXTENSION_ID } from "@sluice/core/internal";
import { readUnlisted, UnlistedTally } from "@sluice/storage/internal";
import { fault, type Advice } from "../terminal/failure.ts";
import { callServer } from "./call-server.ts";
import type { ClientConnection } from "./connect.ts";
import { printable } from "../terminal/print.ts";
import { formatBytes } from "../terminal/quantity.ts";

/** Resources of a server in the order of its list, page by page. Adds to `unlisted` what the server counts as in no list. */
export async function* listResources(
  connection: ClientConnection,
  unlisted: UnlistedTally = new UnlistedTally(),
): AsyncGenerator<ListedResource> {
  const { client, server, signal } = connection;
  let cursor: string | undefined;
  // of every power of two one cursor is remembered, so that circles of any length are found in bounded memory
  let landmark: string | undefined;
  let pages = 0;
  do {
    // not client.listResources(): without a cursor it gathers every page before it answers
    const request = { method: "resources/list" as const, params: cursor ? { cursor } : {} };
    const page = await callServer(connection, () => client.request(request, { signal })).catch(
      (error: unknown) => {
        throw signal.aborted ? error : (resourcelessFault(connection) ?? error);
      },
    );
    for (const { uri, name, mimeType, size, annotations } of page.resources) {
      const lastModified = annotations?.lastModified;
      yield definedMembers({ uri, name, mimeType, size, lastModified });
    }
    const ours = Object(page._meta?.[EXTENSION_ID]) as { readonly unlisted?: unknown };
    unlisted.addAll(readUnlisted(ours.unlisted));
    cursor = page.nextCursor;
    if (cursor !== undefined && cursor === landmark)
      throw new SluiceError("protocol", `${server} keeps giving the same pages`);
    pages += 1;
    if (Number.isInteger(Math.log2(pages))) landmark = cursor;
  } while (cursor !== undefined);
}

/** The error for a server without resources, whatever it answered; `undefined` for one that has some. */
export function resourcelessFault({ client, server }: ClientConnection): Advice | undefined {
  if (client.getServerCapabilities()?.resources) return undefined;
  return fault("unsupported", `${server} has no resources`, "name a server that has some");
}

/** One resource as `sluice ls` shows it. */
export interface ListedResource {
  readonly uri: string;
  readonly name: string;
  readonly mimeType?: string;
  /** Bytes. */
  readonly size?: number;
  /** ISO 8601 date-time. */
  readonly lastModified?: string;
}

const sizeWidth = 8;
const dateWidth = 16;
const typeWidth = 24;

/** Heading of the table. */
export const tableHeading: string = row("size", "modified", "type", "uri");

/** One line of the table. */
export function formatTableRow(resource: ListedResource): string {
  const { size, lastModified, mimeType, uri } = resource;
  return row(
    size === undefined ? "?" : formatBytes(size),
    lastModified === undefined ? "" : printable(lastModified.slice(0, 16).replace("T", " ")),
    printable(mimeType ?? ""),
    printable(uri),
  );
}

function row(size: string, date: string, type: string, uri: string): string {
  const short = type.length > typeWidth ? `${type.slice(0, typeWidth - 1)}…` : type;
  return [
    size.padStart(sizeWidth),
    date.padEnd(dateWidth),
    short.padEnd(typeWidth),
    uri, // last, so that its width does not matter
  ].join("  ");
}
