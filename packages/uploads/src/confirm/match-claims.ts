import { parseMediaType, sanitizeFileName } from "@sluice/core/internal";
import type { ClaimedFile } from "../slots/slots.ts";
import type { PlacedRecord } from "../store/layout.ts";

/** Each claim with the file it names, and the files that none names; `undefined` when a claim names no file. */
export function matchClaims<Claim extends ClaimedFile>(
  files: readonly PlacedRecord[],
  claims: readonly Claim[],
): Matches<Claim> | undefined {
  const unmatched = [...files];
  const matched: { record: PlacedRecord; claim: Claim }[] = [];
  for (const claim of claims) {
    const at = unmatched.findIndex((file) => agrees(file, claim));
    if (at < 0) return undefined;
    matched.push({ record: unmatched.splice(at, 1)[0]!, claim });
  }
  return matched.length > 0 ? { matched, unmatched } : undefined;
}

interface Matches<Claim> {
  readonly matched: readonly { readonly record: PlacedRecord; readonly claim: Claim }[];
  readonly unmatched: readonly PlacedRecord[];
}

function agrees(file: PlacedRecord, claim: ClaimedFile): boolean {
  const { essence } = parseMediaType(claim.mimeType) ?? {};
  const types = [file.mimeType, parseMediaType(file.declaredType)?.essence];
  return (
    (file.name === undefined || file.name === nameOf(claim)) &&
    file.size === claim.size &&
    (types.includes(essence) || essence === "application/octet-stream") &&
    (claim.sha256 === undefined || claim.sha256.toLowerCase() === file.sha256)
  );
}

/** The name of a claim, safe as a file name. */
export function nameOf({ name }: ClaimedFile): string {
  return sanitizeFileName(name);
}
