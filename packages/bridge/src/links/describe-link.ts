import { curlLine } from "@sluice/core";
import { factsOf, withPreview } from "../spool/describe-file.ts";
import type { SpooledString } from "../spool/spooled-string.ts";

/** A link to a held result. */
export interface HeldLink {
  readonly url: string;
  /** Unix milliseconds. */
  readonly expiresAt: number;
}

/** What a model is told in place of a string: name, size, media type, digest, the link, and how the text begins. */
export function describeLink(
  held: SpooledString,
  link: HeldLink,
  {
    mediaType,
    previewBytes,
  }: { readonly mediaType: string | undefined; readonly previewBytes: number },
): string {
  const text =
    `This content is behind a link: it is too large to show.\n${held.name}, ${factsOf(held, mediaType)}. ` +
    `Open or fetch it within ${minutesOf(link)} min, no Authorization header:\n${link.url}\n` +
    `${curlLine(link.url, held.name)}\n` +
    "Your sandbox cannot reach that host? Allow it, or give the user the link.";
  return withPreview(text, held, previewBytes);
}

/** The same in one sentence, for a string whose place has no room for more. */
export function linkSentence(held: SpooledString, link: HeldLink): string {
  return `Behind the link ${link.url} for ${minutesOf(link)} min (${held.name}, ${factsOf(held, undefined)})`;
}

/** The same as a content block (MCP 2025-06-18, server/tools, "Resource Links"). */
export function linkBlock(
  { name, bytes, coding }: SpooledString,
  { url }: HeldLink,
  mediaType: string | undefined,
): object {
  const block = { type: "resource_link", uri: url, name, size: bytes };
  const mimeType = mediaType ?? (coding === "text" ? "text/plain" : undefined);
  return mimeType === undefined ? block : { ...block, mimeType };
}

function minutesOf({ expiresAt }: HeldLink): number {
  return Math.max(1, Math.round((expiresAt - Date.now()) / 60_000));
}
