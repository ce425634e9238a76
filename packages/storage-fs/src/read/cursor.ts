import { formatCursor as format, parseCursor as parse } from "@sluice/storage/plugin";
import type { FsRoot } from "../root/root.ts";
import type { WalkPosition } from "./walk.ts";

/** What a cursor carries. */
export interface CursorContent {
  /** Tells walks apart that stand at the same place. */
  readonly walk: string;
  readonly position: WalkPosition;
}

// #region cursor
/** A cursor as text, bound to the root and the prefix: its position only says which names to pass over. */
export function formatCursor(root: FsRoot, prefix: string, content: CursorContent): string {
  const text = JSON.stringify([content.walk, ...content.position]);
  return format(Buffer.from(text).toString("base64url"), scopeOf(root, prefix));
}

/** The content of a cursor. Throws `invalid_argument` when {@link formatCursor} did not make it for this root and prefix. */
export function parseCursor(root: FsRoot, prefix: string, cursor: string): CursorContent {
  const text = parse(cursor, "fs: list", scopeOf(root, prefix));
  const [walk, ...position] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
    string,
    ...string[][],
  ];
  return { walk, position };
}
// #endregion

function scopeOf(root: FsRoot, prefix: string): string {
  return JSON.stringify([root.path, prefix]);
}
