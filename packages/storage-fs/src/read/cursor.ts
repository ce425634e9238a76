import { hash } from "node:crypto";
import { SluiceError } from "@sluice/core";
import type { Root } from "../root/root.ts";
import type { WalkPosition } from "./walk.ts";

/** What a cursor carries. */
export interface CursorContent {
  /** Tells walks apart that stand at the same place. */
  readonly walk: string;
  readonly position: WalkPosition;
}

// #region cursor
/**
 * A cursor as text. The check binds it to the root and the prefix it was made for; it guards
 * against mistakes, not against forgery: a position only says which names to pass over.
 */
export function formatCursor(root: Root, prefix: string, content: CursorContent): string {
  const text = Buffer.from(JSON.stringify([content.walk, ...content.position])).toString(
    "base64url",
  );
  return `${text}.${toCheck(root, prefix, text)}`;
}

/** The content of a cursor. Throws `invalid_argument` when {@link formatCursor} did not make it for this root and prefix. */
export function parseCursor(root: Root, prefix: string, cursor: string): CursorContent {
  const [text = "", check] = cursor.split(".");
  if (cursor === `${text}.${check}` && check === toCheck(root, prefix, text)) {
    const [walk, ...position] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
      string,
      ...string[][],
    ];
    return { walk, position };
  }
  throw new SluiceError("invalid_argument", "fs: list: the cursor is not one of this listing");
}
// #endregion

function toCheck(root: Root, prefix: string, text: string): string {
  return hash("sha256", JSON.stringify([root.path, prefix, text]), "base64url").slice(0, 11);
}
