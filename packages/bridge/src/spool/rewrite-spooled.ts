import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { findPlaces, isObject, mimeTypeOf } from "./found-places.ts";
import { dataMembers } from "./scan/string-scanner.ts";
import type { SpooledString, SpooledStrings } from "./spooled-string.ts";

/**
 * Puts words for a model in the place of strings that went to files, and takes those out of `spooled`. Text of content
 * blocks and resources becomes path, size, media type, SHA-256 and the beginning; blobs, images, audio and embedded
 * resources become text that says the same; any other string becomes a sentence with the path. What is in
 * `structuredContent` and `_meta` keeps its shape, which a schema may describe. A message without such strings is given
 * back as it is.
 */
export function rewriteSpooled(message: JSONRPCMessage, spooled: SpooledStrings): JSONRPCMessage {
  if (spooled.size === 0) return message;
  const markers = new Set(spooled.keys());
  const presentMarkers = findPlaces(message, markers).map(({ marker }) => marker);
  if (presentMarkers.length === 0) return message;
  const previewBytes = Math.floor(maxPreviewBytes / presentMarkers.length);
  const rewritten = rewriteWith(message, {
    file: (marker) => spooled.get(marker),
    describe: (file, mimeType) => describeFile(file, mimeType, previewBytes),
    sentence: pathSentence,
  });
  for (const marker of presentMarkers) spooled.delete(marker);
  return rewritten;
}

interface SpoolWords {
  /** The string that a marker stands for; `undefined` for other text. */
  file(marker: string): SpooledString | undefined;
  /** Where a model reads text. */
  describe(file: SpooledString, mimeType: string | undefined): string;
  /** In any other place. */
  sentence(file: SpooledString): string;
}

/** Puts words in the place of markers, as `rewriteSpooled` does. */
export function rewriteWith(message: JSONRPCMessage, words: SpoolWords): JSONRPCMessage {
  return rewriteValue(message, words) as JSONRPCMessage;
}

/** Of all previews of a message, as JSON carries them. */
const maxPreviewBytes = 1_024;
const maxLevels = 130;

function rewriteValue(value: unknown, words: SpoolWords, level = 0, isData = false): unknown {
  const file = fileOf(value, words);
  if (file) return words.sentence(file);
  if (!isObject(value) || level > maxLevels) return value;
  if (Array.isArray(value))
    return value.map((inner) => rewriteValue(inner, words, level + 1, isData));
  const block = (isData ? undefined : rewriteBlock(value, words)) ?? value;
  const members = Object.entries(block).map(([name, inner]) => [
    name,
    rewriteValue(inner, words, level + 1, isData || dataMembers.has(name)),
  ]);
  return Object.fromEntries(members);
}

/** A content block or the contents of a resource, in the shape that text has; `undefined` for other objects. */
function rewriteBlock(block: Record<string, unknown>, words: SpoolWords): object | undefined {
  const { type, data, mimeType, resource, ...others } = block;
  const image = type === "image" || type === "audio" ? fileOf(data, words) : undefined;
  if (image)
    return { ...others, type: "text", text: words.describe(image, mimeTypeOf({ mimeType })) };
  if (type === "resource" && isObject(resource)) {
    const text = rewriteContents(resource, words)?.["text"];
    return text === undefined
      ? undefined
      : { ...others, type: "text", text: `${uriLine(resource)}${text as string}` };
  }
  if (type === "text") {
    const file = fileOf(block["text"], words);
    return file && { ...block, text: words.describe(file, undefined) };
  }
  return rewriteContents(block, words);
}

/** Contents of a resource, as SEP and schema have them: `uri`, and `blob` or `text`. */
function rewriteContents(
  contents: Record<string, unknown>,
  words: SpoolWords,
): Record<string, unknown> | undefined {
  const { blob, text, ...others } = contents;
  const file = fileOf(blob, words) ?? fileOf(text, words);
  if (!file || typeof contents["uri"] !== "string") return undefined;
  return {
    ...others,
    mimeType: "text/plain",
    text: words.describe(file, mimeTypeOf(contents)),
  };
}

function fileOf(value: unknown, words: SpoolWords): SpooledString | undefined {
  return typeof value === "string" ? words.file(value) : undefined;
}

function uriLine({ uri }: Record<string, unknown>): string {
  return typeof uri === "string" && oneLine.test(uri) ? `${uri.slice(0, longestUri)}\n` : "";
}

const longestUri = 256;
/** No control or format character: a server makes no line of the bridge's words. */
const oneLine = /^\P{C}+$/u;

/** What a model is told in place of a string: path, size, media type, digest, and how the text begins. */
function describeFile(
  file: SpooledString,
  mimeType: string | undefined,
  previewBytes: number,
): string {
  const text = `This content is in a file: it is too large to show.\n${file.place}\n${factsOf(file, mimeType)}`;
  return withPreview(text, file, previewBytes);
}

/** The same in one sentence, for a string whose place has no room for more. */
function pathSentence(file: SpooledString): string {
  return `In the file ${file.place} (${factsOf(file, undefined)})`;
}

/** Size, media type, coding and digest of a string. */
export function factsOf(
  { bytes, sha256, coding }: SpooledString,
  mimeType: string | undefined,
): string {
  const decoded = coding === "base64" ? ["decoded from base64"] : [];
  const type = mimeType !== undefined && plainType.test(mimeType) ? [mimeType] : [];
  return [`${bytes} bytes`, ...type, ...decoded, `sha-256 ${sha256}`].join(", ");
}

/** A note and the beginning of the string, in at most `previewBytes` of JSON. */
export function withPreview(words: string, file: SpooledString, previewBytes: number): string {
  const head = cutToFit(file.head, previewBytes);
  if (head === "") return words;
  const isAll = head === file.head && file.bytes <= Buffer.byteLength(head);
  return `${words}\nIt begins:\n${head}${isAll ? "" : " …"}`;
}

/** A media type as it may be; a server's line break in it would make a line of the bridge's words. */
const plainType = /^[\x20-\x7e]{1,127}$/;

/** As many characters from the front as need at most `bytes` bytes in JSON. */
function cutToFit(text: string, bytes: number): string {
  let usedBytes = 0;
  let end = 0;
  for (const point of text) {
    usedBytes += Buffer.byteLength(JSON.stringify(point)) - 2;
    if (usedBytes > bytes) break;
    end += point.length;
  }
  return text.slice(0, end);
}
