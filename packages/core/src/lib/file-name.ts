/**
 * One safe path component out of names that others chose: the first of `names` that leaves
 * anything, else `download`. The result has no separator, no control or direction character, no
 * character that Windows forbids, no leading or trailing dot or space, is no device name, and
 * has at most 150 UTF-8 bytes with its extension kept. It is safe on disk, not trustworthy:
 * show it as the sender's word.
 */
export function sanitizeFileName(...names: readonly (string | undefined)[]): string {
  for (const name of names) {
    const safe = sanitize(name ?? "");
    if (safe !== "") return safe;
  }
  return "download";
}

/** The last path segment of a URI, percent-decoded where it can be; `undefined` when there is none. */
export function fileNameFromUri(uri: string): string | undefined {
  const path = uri.replace(/[?#].*$/s, "").replace(/^[a-z][a-z0-9+.-]*:(?:\/\/[^/]*)?/i, "");
  const segment = path.slice(path.lastIndexOf("/") + 1);
  if (segment === "") return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const maxBytes = 150;
// longer than this, what follows the last dot is part of the name
const maxExtensionBytes = 32;
// C0, C1, zero width, line separators, direction marks and overrides, byte order mark, lone surrogates
const unseen =
  // oxlint-disable-next-line no-control-regex
  /[\u0000-\u001f\u007f-\u009f\u061c\u200b-\u200f\u2028-\u202e\u2060-\u2064\u2066-\u2069\ufeff\ud800-\udfff]/gu;
const device = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\.|$)/i;

function sanitize(name: string): string {
  const component = name.slice(Math.max(name.lastIndexOf("/"), name.lastIndexOf("\\")) + 1);
  // what is dropped may have kept two characters apart, so composing comes after it
  const visible = component
    .replace(unseen, "")
    .normalize("NFC")
    .replace(/[<>:"|?*]/g, "_");
  const trimmed = trim(visible);
  return trim(shorten(device.test(trimmed) ? `_${trimmed}` : trimmed));
}

function trim(name: string): string {
  let start = 0;
  let end = name.length;
  while (start < end && (name[start] === "." || name[start] === " ")) start++;
  while (end > start && (name[end - 1] === "." || name[end - 1] === " ")) end--;
  return name.slice(start, end);
}

function shorten(name: string): string {
  if (byteLength(name) <= maxBytes) return name;
  const dot = name.lastIndexOf(".");
  const extension =
    dot > 0 && byteLength(name.slice(dot)) <= maxExtensionBytes ? name.slice(dot) : "";
  let room = maxBytes - byteLength(extension);
  let stem = "";
  for (const character of name) {
    room -= byteLength(character);
    if (room < 0) break;
    stem += character;
  }
  return stem + extension;
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}
