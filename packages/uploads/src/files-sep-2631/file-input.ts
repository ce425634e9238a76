import { definedMembers } from "@sluice/core";
import { FILE_KEYWORD, type FileInputDescriptor } from "@sluice/core/wire";
import { z } from "zod";

/** What a tool wants of a file argument. */
export interface FileInputTerms {
  /** Media types (`image/png`) and ranges (`image/*`); extensions (`.pdf`) only help the user's file picker. Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default 10 MiB. */
  readonly maxBytes?: number;
  /** `inline`: a `data:` URI. `upload`: a file that was uploaded before. Default: both, as the client likes. */
  readonly transferModes?: readonly ("inline" | "upload")[];
}

/** Most bytes of a file argument, unless its terms say otherwise. */
export const defaultInputBytes: number = 10 * 2 ** 20;

/**
 * The schema of a tool's argument that is a file (SEP-2631 §5, experimental): a URI string with `x-mcp-file`. Use
 * `.describe(…)` and `.optional()` on it as on any other, and `z.array(…)` for several.
 */
export function fileInput(terms: FileInputTerms = {}): z.ZodString {
  const { accept, maxBytes = defaultInputBytes, transferModes } = terms;
  const descriptor = definedMembers({
    accept,
    maxSize: maxBytes,
    transferModes,
  }) satisfies FileInputDescriptor;
  return z.string().meta({ format: "uri", [FILE_KEYWORD]: descriptor });
}
