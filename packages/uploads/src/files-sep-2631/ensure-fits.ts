import { isAccepted, type Principal } from "@sluice/core";
import type { ClaimedFile } from "../slots/slots.ts";
import { refusal } from "./file-fault.ts";
import { defaultInputBytes, type FileInputTerms } from "./file-input.ts";

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
