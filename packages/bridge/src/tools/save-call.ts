import { lstat } from "node:fs/promises";
import { localFileName } from "@sluice/core/internal";
import type { SaveFolder, SavePlace } from "../confine/save-folder.ts";
import type { Reservation } from "../spool/files/room.ts";
import type { SavedFiles } from "../saved/saved-files.ts";
import type { SpoolFolder } from "../spool/files/spool-folder.ts";
import type { SpooledStrings } from "../spool/spooled-string.ts";
import type { OwnToolCall } from "./tool-answer.ts";
import { askAboveBytes, yesAdvice, type ToolContext } from "./tool-context.ts";

/** A file that `save_resource` made. */
export interface SavedResource {
  readonly path: string;
  readonly size: number;
  /** Lower-case hex. */
  readonly sha256: string;
  /** What it was compared with: the server's digest, its length, or nothing. */
  readonly verified: "digest" | "length" | "none";
  readonly resumedBytes: number;
}

/** Where files go, and how large they may be. */
export interface SaveSettings {
  readonly folder: SaveFolder;
  /** Maximum bytes of one file. Default: what has room. */
  readonly maxBytes?: number | undefined;
  /** Strings of answers that went to files. */
  readonly spooled: SpooledStrings;
  /** Where those files are. */
  readonly spoolFolder: SpoolFolder | undefined;
  readonly saved: SavedFiles;
}

/** One save that a host called for. */
export interface Save {
  readonly uri: string;
  readonly path: string | undefined;
  readonly call: OwnToolCall;
  readonly context: ToolContext;
  readonly settings: SaveSettings;
}

/** Bytes up to which the user is not asked. */
export function agreedBytes({ agreedBytes: said = askAboveBytes }: ToolContext): number {
  return said;
}

/** Asks the user about a save. */
export function agree(message: string, { call, context }: Save): Promise<boolean> {
  return context.questions.agree(call.request, message, { signal: call.signal, advice: yesAdvice });
}

/** Does a save within room for `bytes` that it may enlarge. */
export async function withRoom(
  { settings }: Save,
  bytes: number,
  work: (reservation: Reservation) => Promise<SavedResource>,
): Promise<SavedResource> {
  const reservation = await settings.saved.room.reserve(bytes);
  try {
    return await work(reservation);
  } finally {
    await reservation.release();
  }
}

/** Writes a file in its place and remembers it. Its bytes are reserved before. `mimeType` is that of the response. */
export async function writeSaved(
  { uri, path, settings, context }: Save,
  named: { readonly name: string; readonly mimeType: unknown },
  write: (place: SavePlace) => Promise<Omit<SavedResource, "path">>,
): Promise<SavedResource> {
  const { folder, saved } = settings;
  const name = context.types.nameOf(localFileName(named.name), uri, named.mimeType);
  const { key, modifiedMs, facts } = await folder.save(path, name, async (place) => {
    const written = { ...(await write(place)), path: place.path };
    const { mtimeMs } = await lstat(place.held);
    return { key: place.key, modifiedMs: mtimeMs, facts: written };
  });
  const { size, sha256 } = facts;
  // without a record it is a file like any other of the user
  await saved.note({ key, size, sha256, uri, savedMs: Date.now(), modifiedMs }).catch(() => {});
  return facts;
}
