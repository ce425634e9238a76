// Many small files in one response: docs/protocol/tree.md.
import type { Reason } from "./errors.ts";

/** Method name of our extension. */
export const TREE_METHOD = "dev.sluice/stream-tree";

/** Media type of the response. */
export const TREE_TYPE = "application/vnd.sluice.tree";

/** Bounds of one call, as either side declares them under `tree` of the extension. */
export interface TreeBounds {
  /** Resources of one call. */
  readonly maxFiles: number;
  /** Bytes of their content together. */
  readonly maxBytes: number;
}

/** The bounds of this implementation, on both sides. */
export const treeBounds: TreeBounds = { maxFiles: 1_000, maxBytes: 256 * 2 ** 20 };

/** A larger file goes by a call of its own, which can resume it: the server refuses it here as `too_large`. */
export const maxTreeFileBytes: number = 4 * 2 ** 20;

/** Maximum text of a URI, in UTF-16 units. */
export const maxTreeUriLength = 4_096;

/** The bounds of a call between two sides. */
export function lesserTreeBounds(one: TreeBounds, other: TreeBounds): TreeBounds {
  return {
    maxFiles: Math.min(one.maxFiles, other.maxFiles),
    maxBytes: Math.min(one.maxBytes, other.maxBytes),
  };
}

/** The bounds in a declaration of the extension; `undefined` if it has none, or no valid ones. */
export function treeBoundsIn(declaration: unknown): TreeBounds | undefined {
  const { tree } = Object(declaration) as { readonly tree?: unknown };
  const { maxFiles, maxBytes } = Object(tree) as { readonly [K in keyof TreeBounds]?: unknown };
  return isPositive(maxFiles) && isPositive(maxBytes) ? { maxFiles, maxBytes } : undefined;
}

function isPositive(value: unknown): value is number {
  return Number.isSafeInteger(value) && (value as number) > 0;
}

/** What precedes the bytes of a file. */
export interface TreeHead {
  /** Index of its URI in the call. */
  readonly i: number;
  /** Bytes that follow. */
  readonly size: number;
  /** Strong validator, without quotes. */
  readonly etag?: string;
  /** Time of the last change, unix milliseconds. */
  readonly modifiedMs?: number;
}

/** What follows the bytes of a file. */
export interface TreeTrailer {
  /** False: the file changed or broke while it was sent, and its bytes are void. */
  readonly ok: boolean;
  /** Of the file, in lower-case hex, if storage knows it. */
  readonly sha256?: string;
}

/** In place of a file that does not come. */
export interface TreeRefusal {
  readonly i: number;
  readonly error: { readonly reason: Reason; readonly retryAfterMs?: number };
}

/** The last frame: how many files and refusals came before it. */
export interface TreeEnd {
  readonly end: true;
  readonly count: number;
}
