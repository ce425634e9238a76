import type { OpenedObject } from "@sluice/storage";
import { uploadError } from "../slots/upload-error.ts";

/** All bytes of an opened file, in memory. Rejects with `corrupt` when storage has more or fewer than `size`. */
export async function readWhole(
  { body, file }: OpenedObject,
  { size }: { readonly size: number },
): Promise<Uint8Array<ArrayBuffer>> {
  const bytes = new Uint8Array(size);
  let at = 0;
  try {
    for await (const chunk of body) {
      if (at + chunk.length > size) throw otherSize();
      bytes.set(chunk, at);
      at += chunk.length;
    }
  } finally {
    await file?.close();
  }
  if (at < size) throw otherSize();
  return bytes;
}

function otherSize() {
  return uploadError("corrupt", "the file in storage has another size than the one that came");
}

/** Text in UTF-8, or in UTF-16 with a byte order mark, which is left out. */
export function decodeText(bytes: Uint8Array): string {
  return new TextDecoder(encodingOf(bytes)).decode(bytes);
}

function encodingOf([first, second]: Uint8Array): string {
  if (first === 0xff && second === 0xfe) return "utf-16le";
  return first === 0xfe && second === 0xff ? "utf-16be" : "utf-8";
}
