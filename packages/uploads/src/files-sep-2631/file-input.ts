import { definedMembers, FILE_KEYWORD, type FileInputDescriptor } from "@sluice/core/internal";
import { optionalInput } from "@sluice/server/internal";
import { z } from "zod/v4";

/** What a tool wants of a file argument. */
export interface FileInputTerms {
  /** Media types (`image/png`) and ranges (`image/*`); extensions (`.pdf`) only help the user's file picker. Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default: `maxBytes` of `createUploads`. */
  readonly maxBytes?: number;
  /** Which URIs are taken. `inline`: a `data:` URI. `upload`: a file that was uploaded before. Default: both. */
  readonly transferModes?: readonly ("inline" | "upload")[];
}

/** A file that the user attached in a host, as ChatGPT and Codex hand it over: a URL of theirs that expires soon. */
export interface HostFile {
  readonly download_url: string;
  readonly file_id: string;
  readonly mime_type?: string | undefined;
  readonly file_name?: string | undefined;
}

/** The value of a file argument: a URI, or a file of a host. */
export type FileArgument = string | HostFile;

/**
 * The schema of a tool's argument that is the URI of a file, with `x-mcp-file` (SEP-2631 §5, experimental). Use `.describe(…)`
 * and `.optional()` on it as on any other, and `z.array(…)` for several.
 */
export function fileInput(terms: FileInputTerms = {}): z.ZodString {
  const { accept, maxBytes, transferModes } = terms;
  const descriptor = definedMembers({
    accept,
    maxSize: maxBytes,
    transferModes,
  }) satisfies FileInputDescriptor;
  return z.string().meta({ format: "uri", [FILE_KEYWORD]: descriptor });
}

/**
 * The schema of a tool's argument that is a file attached in the host: exactly the object that ChatGPT and Codex fill in if
 * {@link openAiFileMeta} names the argument. They do so only for arguments that their model passes: never describe it as one
 * to omit. Hosts keep the words of a tool as they first read them.
 */
export function hostFileInput(): z.ZodType<HostFile> {
  return z.object({
    download_url: z.string(),
    file_id: z.string(),
    mime_type: optionalInput(z.string()),
    file_name: optionalInput(z.string()),
  });
}

/**
 * The `_meta` of a tool whose arguments of these names are of {@link hostFileInput}: ChatGPT and Codex then hand over the
 * files that the user attached.
 */
export function openAiFileMeta(names: readonly string[]): {
  readonly "openai/fileParams": string[];
} {
  return { "openai/fileParams": [...names] };
}
