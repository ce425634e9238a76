import type { SpooledString } from "./spooled-string.ts";

/** What a model is told in place of a string: path, size, media type, digest, and how the text begins. */
export function describeFile(
  file: SpooledString,
  mediaType: string | undefined,
  previewBytes: number,
): string {
  const text = `This content is in a file: it is too large to show.\n${file.place}\n${factsOf(file, mediaType)}`;
  return withPreview(text, file, previewBytes);
}

/** The same in one sentence, for a string whose place has no room for more. */
export function pathSentence(file: SpooledString): string {
  return `In the file ${file.place} (${factsOf(file, undefined)})`;
}

/** Size, media type, coding and digest of a string. */
export function factsOf(
  { bytes, sha256, coding }: SpooledString,
  mediaType: string | undefined,
): string {
  const decoded = coding === "base64" ? ["decoded from base64"] : [];
  const type = mediaType !== undefined && oneLine.test(mediaType) ? [mediaType] : [];
  return [`${bytes} bytes`, ...type, ...decoded, `sha-256 ${sha256}`].join(", ");
}

/** Words and how the string begins, in at most so many bytes of JSON. */
export function withPreview(words: string, file: SpooledString, previewBytes: number): string {
  const head = cutToFit(file.head, previewBytes);
  if (head === "") return words;
  const isAll = head === file.head && file.bytes <= Buffer.byteLength(head);
  return `${words}\nIt begins:\n${head}${isAll ? "" : " …"}`;
}

/** A media type as it may be; a server's line break in it would make a line of the bridge's words. */
const oneLine = /^[\x20-\x7e]{1,127}$/;

/** As many characters from the front as need at most `bytes` bytes in JSON. */
function cutToFit(text: string, bytes: number): string {
  let used = 0;
  let end = 0;
  for (const point of text) {
    used += Buffer.byteLength(JSON.stringify(point)) - 2;
    if (used > bytes) break;
    end += point.length;
  }
  return text.slice(0, end);
}
