import { SluiceError } from "@sluice/core";

/**
 * A cursor that carries a text (the key to resume after, the token of a service), with a check that tells
 * foreign and mangled ones apart. `scope` names what it belongs to, such as the store and the prefix.
 */
export function formatCursor(text: string, scope = ""): string {
  return `${checksum(scope, text)}.${encodeURIComponent(text)}`;
}

/** The text inside a cursor that {@link formatCursor} made for this scope; anything else throws `invalid_argument`. */
export function parseCursor(cursor: string, operation: string, scope = ""): string {
  const [, check, encoded] = /^([0-9a-f]{8})\.(.+)$/.exec(cursor) ?? [];
  try {
    const text = decodeURIComponent(encoded ?? "");
    if (check === checksum(scope, text)) return text;
  } catch {
    // not percent-encoding: not one of ours either
  }
  throw new SluiceError("invalid_argument", `${operation}: the cursor is not one of this store`);
}

/** 32-bit FNV-1a: it catches accidents; a cursor opens nothing that a listing would not. */
function checksum(scope: string, text: string): string {
  let hash = 0x811c9dc5;
  for (const byte of new TextEncoder().encode(`${scope}\0${text}`))
    hash = Math.imul(hash ^ byte, 0x01000193);
  return (hash >>> 0).toString(16).padStart(8, "0");
}
