import { definedMembers, isAccepted, type Principal } from "@sluice/core";
import { FILE_KEYWORD, type FileInputDescriptor } from "@sluice/core/wire";
import { z } from "zod/v4";
import type { ClaimedFile } from "../slots/slots.ts";
import { refusal } from "./file-fault.ts";

/** What a tool wants of a file argument. */
export interface FileInputTerms {
  /** Media types (`image/png`) and ranges (`image/*`); extensions (`.pdf`) only help the user's file picker. Default: everything. */
  readonly accept?: readonly string[];
  /** Largest file, in bytes. Default 10 MiB. */
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

/** Most bytes of a file argument, unless its terms say otherwise. */
export const defaultInputBytes: number = 10 * 2 ** 20;

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
  const { accept, maxBytes = defaultInputBytes, transferModes } = terms;
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

/** What an argument is opened with. */
export interface InputWork {
  readonly terms: FileInputTerms;
  readonly owner: Principal | undefined;
  readonly signal: AbortSignal;
}

/** Extensions are for the file picker (SEP-2631 §5). */
export function typesIn({ accept = [] }: FileInputTerms): readonly string[] {
  return accept.filter((entry) => !entry.startsWith("."));
}

/** Refuses a file that is larger than the terms allow. */
export function ensureSizeFits(
  { maxBytes = defaultInputBytes }: FileInputTerms,
  size: number,
): void {
  if (size > maxBytes)
    throw refusal(`the file has ${size} bytes, and at most ${maxBytes} are accepted`, {
      reason: "maxSizeExceeded",
      maxSize: maxBytes,
      actualSize: size,
    });
}

/** The same, and one of another type. */
export function ensureFits(
  terms: FileInputTerms,
  { mimeType, size }: Pick<ClaimedFile, "mimeType" | "size">,
): void {
  ensureSizeFits(terms, size);
  if (!isAccepted({ name: "", mimeType }, typesIn(terms)))
    throw refusal(`${mimeType} is not accepted`, {
      reason: "mimeTypeNotAccepted",
      mimeType,
      accept: terms.accept,
    });
}
