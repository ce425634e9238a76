import { createHash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import type { Members } from "../messages/messages.ts";
import type { SavedFiles } from "../saved/saved-files.ts";
import type { SpoolFolder } from "../spool/files/spool-folder.ts";
import type { SavedResource } from "./save-call.ts";
import { optionalText, toolResult } from "./tool-answer.ts";

/** The result of `save_resource`. */
export function savedResult({
  path,
  size,
  sha256,
  verified,
  resumedBytes,
}: SavedResource): Members {
  const facts = { path, size, sha256, verified, resumed_bytes: resumedBytes };
  return toolResult(`Saved to ${path}, ${size} bytes, sha-256 ${sha256}`, facts);
}

/** A file as `list_saved` tells it. */
interface ListedSave {
  readonly path: string;
  readonly size: number;
  readonly kind: "saved" | "result";
  readonly at: string;
  readonly uri?: string;
  readonly changed?: boolean;
}

/** A page of `list_saved`: what bridges saved, and the large results that they left, the newest first. */
export async function listResult(
  args: Members,
  saved: SavedFiles,
  spoolFolder: SpoolFolder | undefined,
): Promise<Members> {
  const all = (await listedFiles(saved, spoolFolder)).toSorted((a, b) =>
    placeOf(a) < placeOf(b) ? 1 : -1,
  );
  const rest = after(all, optionalText(args, "cursor"));
  const files = rest.slice(0, limitIn(args));
  const last = files.at(-1);
  const more = last && rest.length > files.length ? { next_cursor: encodeCursor(last) } : {};
  const lines = files.map(
    ({ path, size, changed }) => `${path} (${size} bytes${changed ? ", changed since" : ""})`,
  );
  if ("next_cursor" in more)
    lines.push(`${rest.length - files.length} more: call again with cursor ${more.next_cursor}`);
  const text = lines.length === 0 ? "No file was saved." : lines.join("\n");
  return toolResult(text, { files, ...more });
}

async function listedFiles(
  saved: SavedFiles,
  spoolFolder: SpoolFolder | undefined,
): Promise<ListedSave[]> {
  const results = (await spoolFolder?.list()) ?? [];
  return [
    ...(await saved.list()).map(({ path, record, isChanged }): ListedSave => {
      const file = { path, size: record.size, kind: "saved" as const, at: timeOf(record.savedMs) };
      return isChanged ? { ...file, uri: record.uri, changed: true } : { ...file, uri: record.uri };
    }),
    ...results.map(({ path, bytes, modifiedMs }): ListedSave => {
      return { path, size: bytes, kind: "result", at: timeOf(modifiedMs) };
    }),
  ];
}

function timeOf(ms: number): string {
  return new Date(ms).toISOString();
}

/** Sorts files by time; no two have the same. */
function placeOf({ at, path }: ListedSave): string {
  return `${at} ${path}`;
}

/** Short, whatever the path is: models copy it. */
function encodeCursor({ at, path }: ListedSave): string {
  const tag = createHash("sha256").update(path).digest("hex").slice(0, 16);
  return `${Date.parse(at).toString(36)}.${tag}`;
}

/** The files behind the one of a cursor; if that is gone, those of its time and before. */
function after(files: readonly ListedSave[], cursor: string | undefined): readonly ListedSave[] {
  if (cursor === undefined) return files;
  const [, time = ""] = /^([0-9a-z]{1,9})\.[0-9a-f]{16}$/.exec(cursor) ?? [];
  if (time === "")
    throw new SluiceError("invalid_argument", "bridge: pass the next_cursor of the page before");
  const index = files.findIndex((file) => encodeCursor(file) === cursor);
  if (index >= 0) return files.slice(index + 1);
  const until = timeOf(Number.parseInt(time, 36));
  return files.filter(({ at }) => at <= until);
}

function limitIn({ limit = defaultLimit }: Members): number {
  if (Number.isInteger(limit) && Number(limit) >= 1 && Number(limit) <= maxLimit)
    return Number(limit);
  throw new SluiceError("invalid_argument", `bridge: pass a limit from 1 to ${maxLimit}`);
}

const defaultLimit = 100;
const maxLimit = 1_000;
