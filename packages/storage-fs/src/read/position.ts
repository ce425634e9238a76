import type { WalkPosition } from "./walk.ts";

/** Where the next page of a listing begins. */
export interface PagePosition {
  /** Tells walks apart that stand at the same place. */
  readonly walk: string;
  readonly position: WalkPosition;
}

// #region position
/** A position as the text of a cursor. It only says which names to pass over. */
export function formatPosition({ walk, position }: PagePosition): string {
  return Buffer.from(JSON.stringify([walk, ...position])).toString("base64url");
}

/** The position in the text that {@link formatPosition} made. */
export function parsePosition(text: string): PagePosition {
  const [walk, ...position] = JSON.parse(Buffer.from(text, "base64url").toString()) as [
    string,
    ...string[][],
  ];
  return { walk, position };
}
// #endregion
