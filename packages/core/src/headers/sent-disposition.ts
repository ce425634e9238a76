import { parseContentDisposition, type ContentDisposition } from "./content-disposition.ts";

/**
 * Reads a `Content-Disposition` as programs write it that know only `filename`. They have three dialects of it: a Windows
 * path with bare backslashes, RFC 2047, or UTF-8, which `header` has as text. Names are untrusted.
 */
export function readSentDisposition(header: string | undefined): ContentDisposition | undefined {
  // a backslash escapes a quote and itself; before any other character it is one of a path
  const parsed = parseContentDisposition(
    header?.replaceAll(/\\["\\]?/g, (found) => (found === "\\" ? "\\\\" : found)),
  );
  return parsed && { ...parsed, fileNames: parsed.fileNames.map(decodeWords) };
}

const encodedWord = /=\?([a-z0-9_-]{1,40})(?:\*[a-z0-9-]*)?\?([bq])\?([^ ?]*)\?=/gi;

/** A name of RFC 2047 words only, decoded; any other name, and one whose bytes are not of its charset, as it is. */
function decodeWords(name: string): string {
  if (name.replaceAll(encodedWord, "").trim() !== "") return name;
  try {
    const words = [...name.matchAll(encodedWord)];
    return words.length === 0 ? name : words.map(decodeWord).join("");
  } catch {
    return name;
  }
}

function decodeWord([, charset = "", encoding = "", text = ""]: RegExpExecArray): string {
  const isBase64 = encoding.toLowerCase() === "b";
  const octets = isBase64
    ? atob(text)
    : text
        .replaceAll("_", " ")
        .replaceAll(/=([0-9a-f]{2})/gi, (_, hex: string) =>
          String.fromCharCode(Number.parseInt(hex, 16)),
        );
  const bytes = Uint8Array.from(octets, (letter) => letter.charCodeAt(0));
  return new TextDecoder(charset, { fatal: true }).decode(bytes);
}
