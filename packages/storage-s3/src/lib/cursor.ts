import { hash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import type { Root } from "./root.ts";

/**
 * A continuation token of S3 with a check that binds it to the root and the prefix it was given
 * for: a server may take any token and list from somewhere. It guards against mistakes, not
 * against forgery, because the root goes along with every request.
 */
export function formatCursor(root: Root, prefix: string, token: string): string {
  return `${toCheck(root, prefix, token)}.${Buffer.from(token).toString("base64url")}`;
}

/** The token of a cursor. Throws `invalid_argument` when {@link formatCursor} did not make it for this listing. */
export function parseCursor(root: Root, prefix: string, cursor: string): string {
  const [check, encoded = ""] = cursor.split(".");
  const token = Buffer.from(encoded, "base64url").toString();
  if (check === toCheck(root, prefix, token) && cursor === formatCursor(root, prefix, token))
    return token;
  throw new SluiceError("invalid_argument", "s3: list: the cursor is not one of this listing");
}

function toCheck(root: Root, prefix: string, token: string): string {
  const text = JSON.stringify([root.bucket, root.prefix, prefix, token]);
  return hash("sha256", text, "base64url").slice(0, 11);
}
