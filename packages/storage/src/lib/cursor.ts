import { SluiceError } from "@sluice/core";

/** A cursor that says "after this key", with a check that tells foreign and mangled ones apart. */
export function formatCursor(key: string): string {
  return `${checksum(key)}.${encodeURIComponent(key)}`;
}

/** The key inside a cursor of {@link formatCursor}; anything else throws `invalid_argument`. */
export function parseCursor(cursor: string, who: string): string {
  const [, check, text] = /^([0-9a-f]{8})\.(.+)$/.exec(cursor) ?? [];
  try {
    const key = decodeURIComponent(text ?? "");
    if (check === checksum(key)) return key;
  } catch {
    // not percent-encoding: not one of ours either
  }
  throw new SluiceError("invalid_argument", `${who}: the cursor is not one of this store`);
}

/** 32-bit FNV-1a: it catches accidents; a cursor opens nothing that a listing would not. */
function checksum(text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(text)) hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
