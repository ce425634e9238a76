import { SluiceError } from "@sluice/core";
import type { UploadedFile } from "../slots/slots.ts";
import type { UploadStorage } from "../slots/upload-storage.ts";

// The small objects beside the bytes of an upload, in JSON.

/** What is known of a whole file, as storage keeps it. */
export interface FileRecord {
  readonly fileId: string;
  /** Absent when the sender named none: then the answer does. */
  readonly name?: string;
  /** Bytes. */
  readonly size: number;
  /** What the bytes are. */
  readonly mimeType: string;
  /** What the sender called it, where that is another word for it. */
  readonly declaredType?: string;
  /** Lower-case hex. */
  readonly sha256: string;
  readonly scan: UploadedFile["scan"] | "deferred";
}

/** What was said of a file that comes in parts, before the first one. */
export interface FilePlan {
  readonly name?: string;
  readonly declaredType?: string;
  /** Bytes of the whole, where they were known. */
  readonly length?: number;
  /** Lower-case hex. */
  readonly sha256?: string;
}

/** What the marker of a confirmed upload says. */
export interface ConfirmationRecord {
  readonly files: readonly ConfirmedFile[];
}

/** A file that was confirmed. */
export type ConfirmedFile = Omit<FileRecord, "name" | "declaredType" | "scan"> &
  Pick<UploadedFile, "name" | "scan"> & { readonly place: number };

/** Makes a JSON object that is not there yet; false when it is there already. */
export async function createJson(
  storage: UploadStorage,
  key: string,
  value: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  const bytes = new TextEncoder().encode(JSON.stringify(value));
  const options = { signal, ifAbsent: true, size: bytes.length, contentType: "application/json" };
  try {
    const writer = await storage.write(key, options);
    try {
      await writer.write(bytes);
      await writer.commit();
    } finally {
      await writer.abort();
    }
    return true;
  } catch (error) {
    if (SluiceError.is(error) && error.code === "precondition_failed") return false;
    throw error;
  }
}

/** Reads what {@link createJson} made. */
export async function readJson<Value>(
  storage: UploadStorage,
  key: string,
  signal: AbortSignal,
): Promise<Value> {
  const opened = await storage.open(key, { signal });
  const { bytes } = opened;
  // asking for a body may be what makes it
  const text = bytes ? new TextDecoder().decode(bytes) : await new Response(opened.body).text();
  return JSON.parse(text) as Value;
}

/** Reads what {@link createJson} made; `undefined` when it is not there. */
export async function findJson<Value>(
  storage: UploadStorage,
  key: string,
  signal: AbortSignal,
): Promise<Value | undefined> {
  try {
    return await readJson<Value>(storage, key, signal);
  } catch (error) {
    if (SluiceError.is(error) && error.code === "not_found") return undefined;
    throw error;
  }
}
