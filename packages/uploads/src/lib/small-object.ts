import { discardSource, SluiceError } from "@sluice/core";
import type { UploadStorage } from "./upload-storage.ts";

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
  try {
    const { bytes, body } = opened;
    const text = bytes ? new TextDecoder().decode(bytes) : await new Response(body).text();
    return JSON.parse(text) as Value;
  } finally {
    // its body was not touched where the bytes were at hand
    if (opened.bytes) await discardSource(opened);
  }
}
