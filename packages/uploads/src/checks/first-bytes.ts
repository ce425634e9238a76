import { canonicalType } from "@sluice/core/internal";

/** What the beginning of a file shows. */
export interface FirstBytes {
  /** Type whose signature it has, by its canonical name. */
  readonly type?: string;
  /** A signature so short that it counts only if the file claims this type, or none. */
  readonly isWeak: boolean;
  /** The beginning as text; absent if it is not text, or nothing. */
  readonly text?: string;
  /** It begins with `#!`, by which a system starts a script. */
  readonly isScript: boolean;
}

/** Finds the type of a signature as `file-type` does. */
type FindType = (head: Uint8Array) => Promise<{ readonly mime: string } | undefined>;

/**
 * Looks at the beginning of a file. In text only the signatures of text formats count: three letters prove nothing
 * there.
 */
export async function readFirstBytes(head: Uint8Array, findType: FindType): Promise<FirstBytes> {
  const isScript = latin1(head, 0, 5) !== "#!AMR" && latin1(head, 0, 2) === "#!";
  const text = textOf(head);
  if (text !== undefined) {
    const type = typeOfText(text);
    return { isWeak: false, text, isScript, ...(type !== undefined && { type }) };
  }
  const type = await typeOfBytes(head, findType);
  if (type === undefined) return { isWeak: false, isScript };
  return { type, isWeak: weakSignatures.has(type), isScript };
}

/** Types that are known by one or two bytes, or by some that other files have, too. */
const weakSignatures: ReadonlySet<string> = new Set([
  "application/vnd.ms-fontobject",
  "application/x-apple-diskimage",
  "application/x-arj",
  "application/x-compress",
  "application/x-cpio",
  "application/x-esri-shape",
  "audio/aac",
  "audio/mpeg",
  "audio/vnd.dolby.dd-raw",
  "audio/x-musepack",
  "image/jxl",
  "image/vnd.dwg",
  "image/vnd.ms-photo",
  "image/x-icon",
  "model/stl",
  "video/mp2t",
]);

async function typeOfBytes(head: Uint8Array, findType: FindType): Promise<string | undefined> {
  const found = (await findType(head))?.mime ?? typeOfSignature(head);
  if (found === undefined) return undefined;
  const type = canonicalType(found);
  const isReal = checks[type];
  return isReal === undefined || isReal(head) ? type : undefined;
}

/** Signatures that are not in the table of `file-type`, or that it looks for beyond the beginning. */
function typeOfSignature(head: Uint8Array): string | undefined {
  const start = latin1(head, 0, 8);
  const [, type] = signatures.find(([bytes]) => start.startsWith(bytes)) ?? [];
  return type;
}

const signatures: readonly (readonly [string, string])[] = [
  ["dex\n03", "application/x-dex"],
  ["BC\xc0\xde", "application/x-llvm"],
  ["\x1bLua", "application/x-lua-bytecode"],
  ["AT&TFORM", "image/vnd.djvu"],
  ["v/1\x01", "image/aces"],
  ["DDS ", "image/vnd.ms-dds"],
  ["\xd7\xcd\xc6\x9a", "image/wmf"],
  ["P4", "image/x-portable-bitmap"],
  ["P5", "image/x-portable-graymap"],
  ["P6", "image/x-portable-pixmap"],
  ["P7\n", "image/x-portable-arbitrarymap"],
  [".snd", "audio/basic"],
  ["RIFX", "audio/wav"],
  ["RF64", "audio/wav"],
  ["\x01\xda", "image/sgi"],
  ["Y\xa6j\x95", "image/x-cmu-raster"],
  ["II*\0", "image/tiff"],
  ["MM\0*", "image/tiff"],
  ["0&\xb2u\x8ef\xcf\x11", "application/vnd.ms-asf"],
];

/** What else must hold if a signature is short. */
const checks: Readonly<Record<string, (head: Uint8Array) => boolean>> = {
  "application/postscript": (head) =>
    head[0] === 0xc5 || /^%!(?:PS|FontType)/.test(latin1(head, 0, 10)),
  "application/x-bzip2": (head) => /^BZh[1-9](?:1AY&SY|.rE8P)/s.test(latin1(head, 0, 10)),
  "application/x-shockwave-flash": (head) => head[3]! > 0 && head[3]! < 60,
  "audio/aiff": (head) => /^AIF[CF]$/.test(latin1(head, 8, 12)),
  "audio/mpeg": isMpegAudio,
  "audio/wav": (head) => latin1(head, 8, 12) === "WAVE",
  "image/bmp": (head) => bitmapHeaders.has(number(head, 14, 4)),
  "image/gif": (head) => /^GIF8[79]a$/.test(latin1(head, 0, 6)),
  "image/x-icon": (head) => number(head, 4, 2) > 0 && number(head, 18, 4) >= 22,
  "image/x-portable-bitmap": isPortableMap,
  "image/x-portable-graymap": isPortableMap,
  "image/x-portable-pixmap": isPortableMap,
  "video/mp2t": (head) => head.length < 392 || head[376] === 0x47 || head[388] === 0x47,
};

/** Sizes that the second header of a bitmap has, by which it says its version. */
const bitmapHeaders: ReadonlySet<number> = new Set([12, 16, 40, 52, 56, 64, 108, 124]);

function isPortableMap(head: Uint8Array): boolean {
  return /^P[456]\s+(?:#[^\n]*\n|[\d\s])/.test(latin1(head, 0, 200));
}

/** An ID3 tag whose sizes are in its form, or the header of a frame. */
function isMpegAudio(head: Uint8Array): boolean {
  if (latin1(head, 0, 3) !== "ID3") return (head[2]! & 0xf0) !== 0xf0 && (head[2]! & 0x0c) !== 0x0c;
  return head[3]! < 16 && head[4]! < 0xff && head.subarray(6, 10).every((byte) => byte < 0x80);
}

/** Types of text that its beginning shows. */
function typeOfText(text: string): string | undefined {
  const [, type] = textSignatures.find(([signature]) => signature.test(text)) ?? [];
  return type ?? typeOfRoot(text);
}

const textSignatures: readonly (readonly [RegExp, string])[] = [
  [/^%PDF-/, "application/pdf"],
  [/^%!(?:PS|FontType)/, "application/postscript"],
  [/^\{\\rtf/, "application/rtf"],
  [/^-----BEGIN PGP MESSAGE-----/, "application/pgp-encrypted"],
  [/^BEGIN:VCARD/i, "text/vcard"],
  [/^BEGIN:VCALENDAR/i, "text/calendar"],
  [/^WEBVTT[\s]/, "text/vtt"],
  [/^!<arch>\ndebian-binary/, "application/x-deb"],
  [/^!<arch>\n/, "application/x-unix-archive"],
  [/^StartFontMetrics /, "application/x-font-type1"],
  [/^SIMPLE {2}= {20}T/, "image/fits"],
  [/^\/\* XPM \*\//, "image/x-xpixmap"],
  [/^P[1-6]\s+(?:#[^\n]*\n\s*)?\d+\s+\d+\s/, "image/x-portable-anymap"],
  [/^(?:\/\*[^*]{0,500}\*\/\s*)?#define \w{1,100}_width \d/, "image/x-xbitmap"],
];

/** By the first element of XML or HTML; pages are known by other beginnings, too (WHATWG MIME Sniffing §7.1). */
function typeOfRoot(text: string): string | undefined {
  const isXml = /^\s*<\?xml\s/.test(text);
  const root = rootIn(text);
  if (root === undefined) return isXml ? "application/xml" : undefined;
  const name = root.slice(root.indexOf(":") + 1).toLowerCase();
  if (name === "svg") return "image/svg+xml";
  if (pageElements.has(name)) return "text/html";
  return isXml ? "application/xml" : undefined;
}

const pageElements: ReadonlySet<string> = new Set(
  "html head script iframe h1 div font table a style title b body br p !doctype".split(" "),
);

/** Name of the first element, `!doctype` for that of HTML; `undefined` if the text begins with anything else. */
function rootIn(text: string): string | undefined {
  let at = 0;
  for (;;) {
    while (at < text.length && text[at]!.trim() === "") at += 1;
    if (text.startsWith("<?", at)) at = after(text, "?>", at);
    else if (text.startsWith("<!--", at)) at = after(text, "-->", at);
    else if (/^<!doctype\s+html[\s>]/i.test(text.slice(at, at + 40))) return "!doctype";
    else if (text.startsWith("<!", at)) {
      const subset = text.indexOf("[", at);
      const end = after(text, ">", at);
      at = subset > at && subset < end ? after(text, "]>", subset) : end;
    } else return /^<([A-Za-z_][\w:.-]{0,99})[\s/>]/.exec(text.slice(at, at + 110))?.[1];
  }
}

function after(text: string, end: string, from: number): number {
  const at = text.indexOf(end, from);
  return at < 0 ? text.length : at + end.length;
}

/**
 * The bytes as text: UTF-16 with its byte order mark, UTF-8, or any other encoding that begins in ASCII. Bytes that no
 * text has (WHATWG MIME Sniffing §3) are in none of them.
 */
function textOf(head: Uint8Array): string | undefined {
  if (head.length === 0) return undefined;
  const byteOrderMark = number(head, 0, 2);
  const encoding =
    byteOrderMark === 0xfeff ? "utf-16le" : byteOrderMark === 0xfffe ? "utf-16be" : undefined;
  if (encoding !== undefined && head.length > 3) {
    const text = new TextDecoder(encoding).decode(head.subarray(0, head.length & ~1));
    return hasControls(text) ? undefined : text;
  }
  try {
    // a character may be cut at the end
    const text = new TextDecoder("utf-8", { fatal: true }).decode(head, { stream: true });
    return hasControls(text) ? undefined : text;
  } catch {
    const text = latin1(head, 0, head.length);
    const beginsInAscii = head.subarray(0, 16).every((byte) => byte < 0x80);
    return hasControls(text) || !beginsInAscii ? undefined : text;
  }
}

function hasControls(text: string): boolean {
  for (let at = 0; at < text.length; at += 1) {
    const code = text.charCodeAt(at);
    // backspace to carriage return, the end of a DOS text, escape
    if (code < 32 && !(code >= 8 && code <= 13) && code !== 26 && code !== 27) return true;
  }
  return false;
}

function latin1(bytes: Uint8Array, from: number, to: number): string {
  let text = "";
  for (const byte of bytes.subarray(from, to)) text += String.fromCharCode(byte);
  return text;
}

/** Little-endian; 0 beyond the end. */
function number(bytes: Uint8Array, at: number, length: number): number {
  let value = 0;
  for (let index = length - 1; index >= 0; index -= 1)
    value = value * 256 + (bytes[at + index] ?? 0);
  return value;
}
