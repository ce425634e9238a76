import { definedMembers, FILE_KEYWORD, type FileInputDescriptor } from "@sluice/core/internal";
import { z } from "zod/v4";

/** What a tool wants of a file argument. */
export interface FileInputTerms {
  /** Media types (`image/png`) and ranges (`image/*`); extensions (`.pdf`) only help the user's file picker. Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default: `maxBytes` of `createUploads`. */
  readonly maxBytes?: number;
  /**
   * Which URIs are taken. `inline`: a `data:` URI. `upload`: a file that was uploaded before. Default: both, as the client
   * likes. What a host hands over is taken beside them.
   */
  readonly transferModes?: readonly ("inline" | "upload")[];
}

/** A file that a host hands over, as ChatGPT and Codex do: a URL of theirs that is good for a short time. */
export interface HandedOverFile {
  readonly download_url: string;
  readonly file_id: string;
  readonly mime_type?: string | undefined;
  readonly file_name?: string | undefined;
}

/** The value of a file argument: a URI, or a file that a host hands over. */
export type FileArgument = string | HandedOverFile;

const handedOver = z.object({
  download_url: z.string().max(8_192),
  file_id: z.string().max(1_024),
  mime_type: z.string().max(255).optional(),
  file_name: z.string().max(1_024).optional(),
});

/**
 * The schema of a tool's argument that is a file: a URI with `x-mcp-file` (SEP-2631 §5, experimental), or the object that a
 * host hands over where {@link openAiFileMeta} names the argument. Use `.describe(…)` and `.optional()` on it as on any
 * other, and `z.array(…)` for several.
 */
export function fileInput(
  terms: FileInputTerms = {},
): z.ZodUnion<readonly [z.ZodString, z.ZodType<HandedOverFile>]> {
  const { accept, maxBytes, transferModes } = terms;
  const descriptor = definedMembers({
    accept,
    maxSize: maxBytes,
    transferModes,
  }) satisfies FileInputDescriptor;
  // the keywords of the SEP stand where its clients look for them
  return z.union([z.string(), handedOver]).meta({ format: "uri", [FILE_KEYWORD]: descriptor });
}

/**
 * The `_meta` of a tool whose arguments of these names are files: ChatGPT and Codex then let the user pick a file, and hand
 * over its URL.
 */
export function openAiFileMeta(names: readonly string[]): {
  readonly "openai/fileParams": string[];
} {
  return { "openai/fileParams": [...names] };
}
