import { printable } from "./printable.ts";
import { formatBytes } from "./quantity.ts";

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
