import { createHash } from "node:crypto";
import { SluiceError } from "@sluice/core";

/**
 * A cursor of an adapter with a check in front. Some adapters take any text for a cursor and list
 * from the wrong place; the check binds it to the adapter and to the prefix it was made for.
 */
export function formatCursor(adapter: string, prefix: string, cursor: string): string {
  return `${toCheck(adapter, prefix, cursor)}.${Buffer.from(cursor).toString("base64url")}`;
}

/** The adapter's cursor. Throws `invalid_argument` when {@link formatCursor} did not make it for this listing. */
export function parseCursor(adapter: string, prefix: string, text: string): string {
  const [check, encoded = ""] = text.split(".");
  const cursor = Buffer.from(encoded, "base64url").toString();
  if (text === `${check}.${encoded}` && check === toCheck(adapter, prefix, cursor)) return cursor;
  throw new SluiceError(
    "invalid_argument",
    "files-sdk: list: the cursor is not one of this listing",
  );
}

function toCheck(adapter: string, prefix: string, cursor: string): string {
  const text = JSON.stringify([adapter, prefix, cursor]);
  return createHash("sha256").update(text).digest("base64url").slice(0, 11);
}
