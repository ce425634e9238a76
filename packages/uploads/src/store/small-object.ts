import { SluiceError } from "@sluice/core";
import type { UploadStorage } from "../slots/upload-storage.ts";

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
