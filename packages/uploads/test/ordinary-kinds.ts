import { Buffer } from "node:buffer";

/** Beginning of an ordinary file, made here: name, what its sender declares, bytes, and the type that it is. */
export interface OrdinaryFile {
  readonly name: string;
  readonly declaredType?: string;
  readonly bytes: Uint8Array;
  readonly kind: string;
  /** What a form asks for that wants such a file. */
  readonly asked: string;
}

const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
const hex = (digits: string): Buffer => Buffer.from(digits, "hex");
const join = (...parts: readonly (string | Uint8Array)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? latin1(part) : part)));
const zeros = (count: number): Buffer => Buffer.alloc(count);
const word = (value: number): Buffer => {
  const bytes = zeros(4);
  bytes.writeUInt32LE(value);
  return bytes;
};

/** Local header and bytes of one stored entry of a ZIP. */
export function zipEntry(name: string, content = ""): Buffer {
  const header = hex("504b0304140000000000000000000000000000000000000000000000");
  const sized = Buffer.concat([header.subarray(0, 26), zeros(4)]);
  sized.writeUInt32LE(content.length, 18);
  sized.writeUInt32LE(content.length, 22);
  sized.writeUInt16LE(name.length, 26);
  return join(sized, name, content);
}

const opcContent = zipEntry("[Content_Types].xml", "<Types/>");
const ole = join(hex("d0cf11e0a1b11ae1"), zeros(600));
const tiff = join(hex("49492a0008000000"), hex("0100fe00040001000000000000000000"));
const dng = join(hex("49492a0008000000"), hex("010012c6010004000000010400000000"));
const bmp = join("BM", word(1_000), word(0), word(54), word(40), zeros(60));
const opus = join("OggS", zeros(22), hex("0113"), "OpusHead", hex("01"), zeros(20));
const ebml = join(hex("1a45dfa39342868101428288"), "matroska", zeros(30));
const mp4 = join(hex("00000018"), "ftypmp42", zeros(40));
const text = (start: string): Buffer => latin1(`${start} goes on in plain words.\nAnd a line.\n`);

/** One of each kind that two libraries call by different names, and texts that begin like something else. */
export const ordinaryFiles: readonly OrdinaryFile[] = [
  ...named(
    "video/vnd.avi",
    "video/*",
    join("RIFF", word(99), "AVI LIST", zeros(60)),
    ["a.avi", "video/x-msvideo"],
    ["b.avi", "video/avi"],
  ),
  ...named(
    "audio/wav",
    "audio/*",
    join("RIFF", word(99), "WAVEfmt ", zeros(60)),
    ["a.wav", "audio/wav"],
    ["a.wav", "audio/x-wav"],
    ["a.wav", "audio/vnd.wave"],
  ),
  ...named(
    "audio/aiff",
    "audio/*",
    join("FORM", word(9), "AIFFCOMM", zeros(60)),
    ["a.aiff", "audio/x-aiff"],
    ["a.aif", "audio/aiff"],
    ["a.aifc"],
  ),
  ...named(
    "audio/ogg",
    "audio/*",
    opus,
    ["a.opus", "audio/ogg; codecs=opus"],
    ["a.oga", "audio/ogg"],
  ),
  ...named("audio/opus", "audio/*", opus, ["a.opus", "audio/opus"]),
  ...named(
    "application/postscript",
    "application/postscript",
    text("%!PS-Adobe-3.0 EPSF-3.0\n"),
    ["a.eps", "application/postscript"],
    ["a.eps", "image/x-eps"],
    ["a.ai"],
  ),
  ...named(
    "application/postscript",
    "application/postscript",
    join(hex("c5d0d3c620000000"), zeros(40)),
    ["a.eps", "application/postscript"],
  ),
  ...named("application/pdf", ".ai", latin1("%PDF-1.6\n%\xe2\xe3\xcf\xd3\n"), [
    "a.ai",
    "application/postscript",
  ]),
  ...named("image/x-adobe-dng", "image/*", dng, ["a.dng", "image/x-adobe-dng"], ["b.dng"]),
  ...named("image/x-adobe-dng", "image/*", tiff, ["a.dng", "image/x-adobe-dng"]),
  ...named("image/tiff", "image/*", tiff, ["a.tif", "image/tiff"], ["scan.tiff"]),
  ...named("image/tiff", "image/*", hex("49492a00ffff0f0000000000"), ["far.tif", "image/tiff"]),
  ...named(
    "application/x-rpm",
    "application/x-rpm",
    join(hex("edabeedb0300"), zeros(90)),
    ["a.rpm", "application/x-redhat-package-manager"],
    ["b.rpm", "application/x-rpm"],
  ),
  ...named(
    "model/vnd.usdz+zip",
    "model/vnd.usdz+zip",
    zipEntry("scene.usdc", "PXR-USDC"),
    ["a.usdz", "model/vnd.usdz+zip"],
    ["b.usdz"],
  ),
  ...named(
    "model/3mf",
    "model/3mf",
    join(opcContent, zipEntry("3D/3dmodel.model", "<model/>")),
    ["a.3mf", "model/3mf"],
    ["b.3mf"],
  ),
  ...named(
    "application/rtf",
    ".rtf",
    text("{\\rtf1\\ansi "),
    ["a.rtf", "application/rtf"],
    ["a.rtf", "text/rtf"],
  ),
  ...named(
    "application/msword",
    ".doc",
    text("{\\rtf1\\ansi "),
    ["letter.doc", "application/msword"],
    ["letter.doc"],
  ),
  ...named(
    "application/msword",
    "application/msword",
    ole,
    ["a.doc", "application/msword"],
    ["b.doc"],
  ),
  ...named("application/vnd.ms-excel", ".xls", ole, ["a.xls", "application/vnd.ms-excel"]),
  ...named(
    "text/csv",
    ".csv",
    text("a,b\n"),
    ["a.csv", "application/vnd.ms-excel"],
    ["a.csv", "text/csv; charset=utf-8"],
  ),
  ...named("application/x-msi", ".msi", ole, ["a.msi"]),
  ...named(
    "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    ".docx",
    join(opcContent, zipEntry("word/document.xml", "<w/>")),
    ["a.docx"],
    ["a.docx", "application/zip"],
  ),
  ...named("application/epub+zip", ".epub", zipEntry("mimetype", "application/epub+zip"), [
    "a.epub",
    "application/epub+zip",
  ]),
  ...named(
    "application/java-archive",
    "application/java-archive",
    zipEntry("META-INF/MANIFEST.MF", "M: 1"),
    ["a.jar"],
    ["a.war"],
  ),
  ...named("application/vnd.google-earth.kmz", ".kmz", zipEntry("doc.kml", "<kml/>"), ["a.kmz"]),
  ...named(
    "image/bmp",
    "image/*",
    bmp,
    ["a.bmp", "image/bmp"],
    ["a.bmp", "image/x-ms-bmp"],
    ["scan"],
  ),
  ...named(
    "image/x-icon",
    "image/*",
    join(hex("00000100010010100000010020006804000016000000"), zeros(60)),
    ["favicon.ico", "image/vnd.microsoft.icon"],
    ["favicon.ico", "image/x-icon"],
  ),
  ...named("video/matroska", "video/*", ebml, ["a.mkv", "video/x-matroska"]),
  ...named(
    "audio/mp4",
    "audio/*",
    join(hex("00000018"), "ftypM4A ", zeros(40)),
    ["a.m4a", "audio/x-m4a"],
    ["a.m4a", "audio/mp4"],
  ),
  ...named("video/quicktime", "video/*", mp4, ["a.mov", "video/quicktime"]),
  ...named("video/x-ms-wmv", "video/*", join(hex("3026b2758e66cf11a6d900aa0062ce6c"), zeros(80)), [
    "a.wmv",
    "video/x-ms-wmv",
  ]),
  ...named(
    "audio/mpeg",
    "audio/*",
    join("ID3", hex("03000000000f76"), zeros(2_000)),
    ["a.mp3", "audio/mpeg"],
    ["a.mp3", "audio/mp3"],
  ),
  ...named(
    "audio/mpeg",
    "audio/*",
    join(hex("fffb9064"), zeros(400)),
    ["a.mp3", "audio/mpeg"],
    ["take one"],
  ),
  ...named("audio/flac", "audio/*", join("fLaC", zeros(60)), ["a.flac", "audio/x-flac"]),
  ...named("application/x-rar-compressed", ".rar", join(hex("526172211a0700"), zeros(40)), [
    "a.rar",
    "application/vnd.rar",
  ]),
  ...named(
    "application/x-deb",
    ".deb",
    latin1("!<arch>\ndebian-binary   1342943816  0     0     100644  4         `\n2.0\n"),
    ["a.deb", "application/vnd.debian.binary-package"],
  ),
  ...named(
    "application/x-msdownload",
    ".exe",
    join("MZ", hex("90000300"), zeros(90)),
    ["setup.exe", "application/x-msdownload"],
    ["setup.exe"],
  ),
  ...named("image/x-xpixmap", "image/*", text("/* XPM */\nstatic char *a[] = {"), [
    "a.xpm",
    "image/x-xpixmap",
  ]),
  ...named("image/x-portable-pixmap", "image/*", join("P6\n4 4\n255\n", zeros(48)), [
    "a.ppm",
    "image/x-portable-pixmap",
  ]),
  ...named(
    "image/svg+xml",
    "image/*",
    text(
      '<?xml version="1.0"?>\n<!-- drawn -->\n<svg xmlns="http://www.w3.org/2000/svg"><title>on and on = x</title></svg>',
    ),
    ["a.svg", "image/svg+xml"],
    ["b.svg"],
  ),
  ...named(
    "text/plain",
    "text/*",
    text("BM25 ranks documents and"),
    ["notes.txt", "text/plain"],
    ["notes"],
  ),
  ...named(
    "text/plain",
    "text/*",
    text("MZ is the mark of a program that"),
    ["notes.txt", "text/plain"],
    ["README"],
  ),
  ...named(
    "text/plain",
    "text/*",
    text("ID3 tags are what a player"),
    ["notes.txt", "text/plain; charset=utf-8"],
    ["LICENSE"],
  ),
  ...named(
    "text/plain",
    "text/*",
    text("GIF is a format that"),
    ["notes.txt", "text/plain"],
    ["a.unknown"],
  ),
  ...named("text/plain", "text/*", text("solid gold, FWS, CWS and PK"), [
    "notes.txt",
    "text/plain",
  ]),
  ...named("text/plain", "text/*", text("FORM follows function and"), ["notes.txt", "text/plain"]),
  ...named("text/markdown", "text/*", text("BZhang wrote this and"), ["NOTES.md", "text/markdown"]),
  ...named("text/csv", "text/csv", text("ID3,MZ\n1,2\n"), ["a.csv", "text/csv"]),
  ...named(
    "text/plain",
    "text/*",
    join(hex("fffe"), Buffer.from("Text of Windows\r\n", "utf16le")),
    ["notes.txt", "text/plain"],
    ["notes"],
  ),
  ...named("text/plain", "text/*", latin1("Gr\xfc\xdfe in einer alten Kodierung\n"), [
    "notes.txt",
    "text/plain",
  ]),
  ...named(
    "text/plain",
    "text/*",
    text("#!/usr/bin/env node\nimport x from 'y';"),
    ["main.ts", "video/mp2t"],
    ["main.mts", "video/mp2t"],
  ),
  ...named(
    "text/plain",
    "text/*",
    text("fn main() {}"),
    ["main.rs"],
    ["id.pub"],
    ["notes.org"],
    ["main.go"],
  ),
  ...named(
    "text/javascript",
    "text/*",
    text("export {};"),
    ["a.mjs", "text/javascript"],
    ["a.js", "application/javascript"],
  ),
  ...named("application/json", "application/json", text("{}"), ["a.json", "application/json"]),
  ...named("application/gzip", ".svgz", join(hex("1f8b0800000000000003"), zeros(30)), [
    "a.svgz",
    "image/svg+xml",
  ]),
];

/** The same bytes under several names. */
function named(
  kind: string,
  asked: string,
  bytes: Uint8Array,
  ...calls: readonly (readonly [name: string, declaredType?: string])[]
): OrdinaryFile[] {
  return calls.map(([name, declaredType]) => ({
    name,
    kind,
    asked,
    bytes,
    ...(declaredType !== undefined && { declaredType }),
  }));
}
