import { sanitizeFileName } from "@sluice/core/internal";
import { get, Interrupted } from "./http.ts";
import type { Receipt } from "./transfer.ts";

/** A whole file of a slot. */
export interface StoredFile extends Receipt {
  readonly fileId: string;
}

/** A file that was begun, here or on a page that is gone. */
export interface BegunFile {
  readonly fileId: string;
  readonly name: string;
  readonly size: number;
  /** Bytes that are there. */
  readonly received: number;
  /** Of its first bytes, lower-case hex. */
  readonly beginning?: { readonly bytes: number; readonly sha256: string };
}

/** What a slot has. */
export interface Overview {
  readonly files: readonly StoredFile[];
  readonly unfinished: readonly BegunFile[];
}

/** Asks a slot what it has. Rejects with {@link Interrupted} when the server cannot say. */
export async function askOverview(slotUrl: string, signal: AbortSignal): Promise<Overview> {
  const answer = await get(slotUrl, signal);
  if (answer.status !== 200) throw new Interrupted("The server is busy.");
  const { files = [], unfinished = [] } = answer.json as {
    readonly files?: readonly StoredFile[];
    readonly unfinished?: readonly Partial<BegunFile>[];
  };
  return {
    files,
    // what has no name or size was not begun by this page
    unfinished: unfinished.filter(
      (file): file is BegunFile => file.name !== undefined && file.size !== undefined,
    ),
  };
}

/** Files that are hashed whole: the browser holds them in memory for it. */
const mostHashedBytes = 64 * 1024 * 1024;

/** Whether a picked file is one that is there whole. If the browser cannot hash it, name and size tell. */
export async function isStored(file: File, stored: StoredFile): Promise<boolean> {
  return isAlike(file, stored) && isWhole(file, stored);
}

/** Whether a picked file is the one that was begun. Bytes that cannot be compared are not gone on with. */
export async function isBegun(file: File, begun: BegunFile): Promise<boolean> {
  if (!isAlike(file, begun)) return false;
  const { beginning } = begun;
  if (!beginning) return true;
  return (await digestOf(file.slice(0, beginning.bytes))) === beginning.sha256;
}

function isAlike(file: File, { name, size }: { readonly name: string; readonly size: number }) {
  return file.size === size && sanitizeFileName(file.name) === name;
}

/** Whether what is there whole is what was picked, as far as the browser can hash it. */
export async function isWhole(file: Blob, { sha256 }: Receipt): Promise<boolean> {
  if (sha256 === undefined || file.size > mostHashedBytes) return true;
  const digest = await digestOf(file);
  return digest === undefined || digest === sha256;
}

/** SHA-256 in lower-case hex; `undefined` if the page is not served securely, or the file cannot be read. */
async function digestOf(blob: Blob): Promise<string | undefined> {
  try {
    const digest = await crypto.subtle.digest("SHA-256", await blob.arrayBuffer());
    return Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join(
      "",
    );
  } catch {
    return undefined;
  }
}
