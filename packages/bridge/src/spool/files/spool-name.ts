import { extensionOf, localFileName, parseMediaType } from "@sluice/core";
import mime from "mime";
import type { StringCoding } from "./string-file.ts";

/** What a name is made of. */
export interface NameHints {
  /** As another party gave it. */
  readonly name: string | undefined;
  readonly mediaType: string | undefined;
  readonly coding: StringCoding;
}

/** A safe file name of at most 64 characters, always with an extension. */
export function spoolName({ name, mediaType, coding }: NameHints): string {
  const safe = name === undefined ? "" : localFileName(name);
  const given = extensionOf(safe);
  const isGiven = given !== "" && given.length <= longestExtension;
  const stem = isGiven ? safe.slice(0, safe.length - given.length - 1) : safe;
  const extension = isGiven ? safe.slice(-given.length) : extensionFor(mediaType, coding);
  const shortStem = Array.from(stem).slice(0, longestStem).join("");
  return `${shortStem === "" ? (coding === "text" ? "text" : "data") : shortStem}.${extension}`;
}

const longestStem = 48;
const longestExtension = 15;

function extensionFor(mediaType: string | undefined, coding: StringCoding): string {
  const type = parseMediaType(mediaType)?.essence;
  const known = type === undefined ? undefined : mime.getExtension(type);
  return known ?? (coding === "text" ? "txt" : "bin");
}
