import {
  protect,
  wrapBackend,
  type ObjectInfo,
  type StorageBackend,
  type WritableBackend,
  type WriteOptions,
} from "@sluice/storage";
import { unlessMissing } from "@sluice/storage/plugin";
import { codeOf } from "../slots/upload-error.ts";

/** The backend of the author as {@link toUploadStorage} gives it: what everything here writes to. */
export type UploadStorage = WritableBackend;

/**
 * A backend with `protect` around it that writes nothing for other users of the machine to read. Throws a `TypeError`
 * when it cannot take uploads.
 */
export function toUploadStorage(backend: WritableBackend): UploadStorage {
  const unchecked: StorageBackend = backend;
  if (!unchecked.write || !unchecked.remove)
    throw new TypeError(
      `createUploads: storage ${JSON.stringify(backend.name)} has no write and remove; pass one that has both, as with writable: true`,
    );
  return wrapBackend(protect(backend), {
    write: (write) => (key, options) => write(key, { ...options, private: true }),
    writeInSteps: (writeInSteps) => (key, options) =>
      writeInSteps(key, { ...options, private: true }),
  });
}

/** All objects below a prefix. */
export async function listAll(
  storage: StorageBackend,
  prefix: string,
  signal: AbortSignal,
): Promise<ObjectInfo[]> {
  const objects: ObjectInfo[] = [];
  let cursor: string | undefined;
  do {
    const page = await storage.list({ prefix, signal, ...(cursor !== undefined && { cursor }) });
    objects.push(...page.objects);
    ({ cursor } = page);
  } while (cursor !== undefined);
  return objects;
}

/** Writes a small object. */
export async function writeObject(
  storage: UploadStorage,
  key: string,
  bytes: Uint8Array,
  options: Omit<WriteOptions, "size"> = {},
): Promise<ObjectInfo> {
  const writer = await storage.write(key, { ...options, size: bytes.length });
  try {
    if (bytes.length > 0) await writer.write(bytes);
    return await writer.commit();
  } finally {
    await writer.abort();
  }
}

const json = { contentType: "application/json" };

/** Makes a JSON object that is not there yet; false when it is there already. */
export async function createJson(
  storage: UploadStorage,
  key: string,
  value: unknown,
  signal: AbortSignal,
): Promise<boolean> {
  try {
    await writeObject(storage, key, toJson(value), { ...json, signal, ifAbsent: true });
    return true;
  } catch (error) {
    if (codeOf(error) === "precondition_failed") return false;
    throw error;
  }
}

/** Puts a JSON object in the place of one that {@link createJson} made. */
export async function replaceJson(
  storage: UploadStorage,
  key: string,
  value: unknown,
): Promise<void> {
  await writeObject(storage, key, toJson(value), json);
}

function toJson(value: unknown): Uint8Array {
  return new TextEncoder().encode(JSON.stringify(value));
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
export function findJson<Value>(
  storage: UploadStorage,
  key: string,
  signal: AbortSignal,
): Promise<Value | undefined> {
  return unlessMissing(readJson<Value>(storage, key, signal));
}
