import { SluiceError } from "@sluice/core";
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

/** The position in the text that {@link formatPosition} made; any other text throws `invalid_argument`. */
export function parsePosition(text: string, operation: string): PagePosition {
  try {
    const parts: unknown = JSON.parse(Buffer.from(text, "base64url").toString());
    if (Array.isArray(parts) && typeof parts[0] === "string" && parts.slice(1).every(isNames))
      return { walk: parts[0], position: parts.slice(1) };
  } catch {
    // no JSON: not one of ours either
  }
  throw new SluiceError("invalid_argument", `${operation}: the cursor is not one of this store`);
}
// #endregion

function isNames(part: unknown): part is readonly string[] {
  return Array.isArray(part) && part.every((name) => typeof name === "string");
}
