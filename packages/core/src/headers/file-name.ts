/**
 * The name as it is, fit for a header or a file of this system: the last path component of `name` with control,
 * direction and unseen characters and line separators left out, and `\\` as `_`. At most 255 UTF-8 bytes, cut between characters
 * that are seen as one, with the extension kept. Gives `download` where nothing is left. On Windows, and for names that
 * are stored for other systems, use {@link sanitizeFileName}.
 */
export function trueFileName(name: string): string {
  const component = name.slice(name.lastIndexOf("/") + 1).replaceAll("\\", "_");
  const clean = seen(component);
  return isBlank(clean) ? "download" : shorten(clean);
}

/**
 * One path component that is safe on any system, out of names that another party chose: the first of `names` that
 * leaves anything, else `download`. The result has no separator, no control, direction or unseen character but the
 * joiners and selectors of scripts and emoji, no character that Windows forbids, no leading or trailing dot or
 * space, no leading `-` or `~`, is not a device name, and has at most 255 UTF-8 bytes with its extension kept. It is
 * safe on disk, not trustworthy: show it as the sender's word.
 */
export function sanitizeFileName(...names: readonly (string | undefined)[]): string {
  for (const name of names) {
    const safe = sanitize(name ?? "");
    if (!isBlank(safe)) return safe;
  }
  return "download";
}

/**
 * The name under which this system may save a file that another party named: the first of `names` that leaves anything,
 * else `download`. On Windows, as {@link sanitizeFileName}; elsewhere as {@link trueFileName}, without leading
 * dots and spaces, so that no hidden file is made, and with `_` for a leading `-` or `~`.
 */
export function localFileName(...names: readonly (string | undefined)[]): string {
  const { process } = globalThis as { process?: { readonly platform?: string } };
  if (process?.platform === "win32") return sanitizeFileName(...names);
  for (const name of names) {
    const visible = seen(lastComponent(name ?? ""))
      .replace(leadingDots, "")
      .replace(shellSign, "_");
    if (!isBlank(visible)) return shorten(visible);
  }
  return "download";
}

/**
 * True for a relative path with `/` of names that {@link localFileName} leaves as they are: it leads neither out of its folder
 * nor to a hidden file.
 */
export function isPlainPath(path: string): boolean {
  return !path.includes("\\") && path.split("/").every((name) => localFileName(name) === name);
}

/**
 * The last path segment of a URI, percent-decoded where it can be. Without a path it is the authority, as in
 * `acme://report.pdf`, where the scheme is not of the web: there it names a host. `undefined` when there is none.
 */
export function fileNameFromUri(uri: string): string | undefined {
  const [, scheme = "", authority = "", path = ""] =
    /^(?:([a-z][a-z0-9+.-]*):(?:\/\/([^/?#]*))?)?([^?#]*)/i.exec(uri) ?? [];
  const isNamed = (path === "" || path === "/") && !hostScheme.test(scheme);
  const segment = isNamed ? authority : path.slice(path.lastIndexOf("/") + 1);
  if (segment === "") return undefined;
  try {
    return decodeURIComponent(segment);
  } catch {
    return segment;
  }
}

const hostScheme = /^(?:https?|wss?|ftp|file)$/i;

/** Limits of file systems. */
const maxBytes = 255;
// longer than this, what follows the last dot is part of the name
const maxExtensionBytes = 32;
/**
 * What is left out: C0, C1, line separators, direction marks, lone surrogates, and all that is not seen. Of the latter,
 * three are part of what is seen and stay: joiners within emoji and between letters beyond ASCII, and one selector behind
 * a character.
 */
const leftOut =
  /(\p{Extended_Pictographic}\p{Emoji_Modifier}?\ufe0f?\u200d(?=\p{Extended_Pictographic})|(?![a-zA-Z])[\p{L}\p{M}][\u200c\u200d](?=(?![a-zA-Z])[\p{L}\p{M}])|[^. \p{C}\p{Z}\p{Default_Ignorable_Code_Point}]\p{Variation_Selector})|[\p{Cc}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}\ufff9-\ufffb]/gu;
const leadingDots = /^[. ]+/;
// a program reads such a name as an option, a shell as a home folder
const shellSign = /^[-~]/;
const device = /^(?:con|prn|aux|nul|conin\$|conout\$|(?:com|lpt)[0-9¹²³]) *(?:\.|$)/i;

/** True for a name, without what {@link leftOut} names, in which nothing is seen. */
function isBlank(name: string): boolean {
  return /^[. ]*$/.test(name);
}

/** A name without what {@link leftOut} names. */
function seen(name: string): string {
  return name.replace(leftOut, "$1");
}

function lastComponent(name: string): string {
  return name.slice(Math.max(name.lastIndexOf("/"), name.lastIndexOf("\\")) + 1);
}

function sanitize(name: string): string {
  // a dropped character may have kept two others apart, so compose after it
  const visible = seen(lastComponent(name))
    .normalize("NFC")
    .replace(/[<>:"|?*]/g, "_");
  const trimmed = trim(visible).replace(shellSign, "_");
  return trim(shorten(device.test(trimmed) ? `_${trimmed}` : trimmed));
}

function trim(name: string): string {
  let end = name.length;
  while (end > 0 && (name[end - 1] === "." || name[end - 1] === " ")) end--;
  return name.slice(0, end).replace(leadingDots, "");
}

function shorten(name: string): string {
  // a code unit is at most three bytes, so short names need no encoding
  if (name.length * 3 <= maxBytes || byteLength(name) <= maxBytes) return name;
  const dot = name.lastIndexOf(".");
  const extension =
    dot > 0 && byteLength(name.slice(dot)) <= maxExtensionBytes ? name.slice(dot) : "";
  const room = maxBytes - byteLength(extension);
  return cut(name.slice(0, name.length - extension.length), room) + extension;
}

/** As many whole characters from the front as have at most `room` bytes. */
function cut(text: string, room: number): string {
  // no more than `room` UTF-16 units fit, and a segmenter reads all that it is given
  const near = text.slice(0, room + 1);
  let end = 0;
  let used = 0;
  for (const { segment } of new Intl.Segmenter("en").segment(near)) {
    used += byteLength(segment);
    if (used > room) break;
    end += segment.length;
  }
  // one that is longer than the name may be is cut between its code points
  if (end === 0)
    for (const point of near) {
      if (byteLength(near.slice(0, end) + point) > room) break;
      end += point.length;
    }
  // a joiner at the end has nothing to join
  return seen(near.slice(0, end));
}

function byteLength(text: string): number {
  return new TextEncoder().encode(text).length;
}

/**
 * A command line that saves a URL under a file name. With `-OJ` it replaces no file, and supports
 * only ASCII names: any other name is written out.
 */
export function curlLine(url: string, name: string): string {
  const written = sanitizeFileName(name);
  // signs that are not seen make no other name: that of a file of the reader, which -o would replace
  if (/^[\x20-\x7e\p{Default_Ignorable_Code_Point}]*$/u.test(written)) return `curl -fLOJ '${url}'`;
  return `curl -fL -o '${written.replaceAll("'", "'\\''")}' '${url}'`;
}

/** A name as people see it: letters in any case and Unicode form, and every kind of space, are the same. */
export function foldName(name: string): string {
  return name.normalize("NFKC").toLowerCase();
}
