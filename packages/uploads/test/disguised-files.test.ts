import { Buffer } from "node:buffer";
import { expect, test } from "vitest";
import { createKindDetector } from "../src/checks/detect-kind.ts";
import { zipEntry } from "./ordinary-kinds.ts";

const latin1 = (text: string): Buffer => Buffer.from(text, "latin1");
const hex = (digits: string): Buffer => Buffer.from(digits, "hex");
const zeros = (count: number): Buffer => Buffer.alloc(count);
const join = (...parts: readonly (string | Uint8Array)[]): Buffer =>
  Buffer.concat(parts.map((part) => (typeof part === "string" ? latin1(part) : part)));
const svg = (inside: string, before = "", attributes = ""): Buffer =>
  latin1(`${before}<svg xmlns="http://www.w3.org/2000/svg" ${attributes}>${inside}</svg>\n`);
const pixel = hex("89504e470d0a1a0a0000000d49484452000000010000000108020000009077");

interface Disguise {
  readonly name?: string;
  readonly declaredType?: string;
}
const asPng: Disguise = { name: "cat.png", declaredType: "image/png" };

async function kindOf(
  { name, declaredType }: Disguise,
  bytes: Uint8Array,
  accept: readonly string[],
  chunkBytes = bytes.length,
): Promise<string> {
  const detector = createKindDetector({ name, declaredType }, accept);
  try {
    for (let at = 0; at < bytes.length; at += chunkBytes)
      await detector.add(bytes.subarray(at, at + chunkBytes));
    return await detector.kind();
  } catch (error) {
    return (error as { code: string }).code;
  }
}

/** Programs and archives: their signature shows what they are. */
const programs: readonly (readonly [string, Disguise, Uint8Array])[] = [
  ["a Windows program", asPng, join("MZ", hex("90000300000004000000ffff0000"), zeros(99))],
  [
    "a Windows program whose second header is far",
    asPng,
    join("MZ", zeros(58), hex("00f0ff0f"), zeros(99)),
  ],
  ["a Windows program as a bitmap", { name: "a.bmp" }, join("MZ", hex("90000300"), zeros(99))],
  ["an ELF program", asPng, join(hex("7f454c4602010100"), zeros(60))],
  [
    "an ELF program without a declared type",
    { name: "a.gif" },
    join(hex("7f454c4602010100"), zeros(60)),
  ],
  [
    "an ELF program as a TGA",
    { name: "a.tga", declaredType: "image/x-tga" },
    join(hex("7f454c4602010100"), zeros(60)),
  ],
  ["a Mach-O program", asPng, join(hex("cffaedfe07000001"), zeros(60))],
  ["a Mach-O program for several processors", asPng, join(hex("cafebabe00000002"), zeros(60))],
  ["a Java class", asPng, join(hex("cafebabe00000034"), zeros(60))],
  ["an Android program", asPng, join("dex\n035\0", zeros(60))],
  ["WebAssembly", asPng, join("\0asm", hex("01000000"), zeros(60))],
  ["a Flash film", asPng, join("CWS", hex("0a00100000789c"), zeros(60))],
  ["a Windows shortcut", asPng, join(hex("4c0000000114020000000000c000000000000046"), zeros(60))],
  ["a Windows help file", asPng, join("ITSF", hex("03000000"), zeros(60))],
  ["a JAR", asPng, zipEntry("META-INF/MANIFEST.MF", "Main-Class: A")],
  ["a JAR whose manifest is not first", asPng, zipEntry("A.class", "x")],
  ["an Android package", asPng, zipEntry("classes.dex", "dex")],
  ["an extension of a browser", asPng, join("Cr24", hex("03000000"), zeros(60))],
  ["an installer of Windows", asPng, join(hex("d0cf11e0a1b11ae1"), zeros(600))],
  [
    "a Debian package",
    asPng,
    latin1("!<arch>\ndebian-binary   1342943816  0     0     100644  4         `\n2.0\n"),
  ],
  ["bytecode of Lua", asPng, join("\x1bLua", hex("5300"), zeros(60))],
];

/** Texts that systems, servers or browsers run. */
const scripts: readonly (readonly [string, Disguise, Uint8Array])[] = [
  ["a script of a shell", asPng, latin1("#!/bin/sh\nrm -rf /\n")],
  [
    "a script with an archive behind it",
    asPng,
    join("#!/usr/bin/python3\n", zipEntry("__main__.py", "x")),
  ],
  ["a page", asPng, latin1("<!DOCTYPE html><script>alert(1)</script>")],
  [
    "a page after blanks and a comment",
    asPng,
    latin1(" \r\n<!-- a -->\n<ScRiPt src=//x></script>"),
  ],
  ["a page with a byte order mark", asPng, join(hex("efbbbf"), "<html><body>")],
  [
    "a page in UTF-16",
    asPng,
    join(hex("fffe"), Buffer.from("<html><script>x</script>", "utf16le")),
  ],
  [
    "a page as a bitmap",
    { name: "a.bmp", declaredType: "image/bmp" },
    latin1("<html><body onload='x()'>"),
  ],
  [
    "a page as an SVG",
    { name: "a.svg", declaredType: "image/svg+xml" },
    latin1("<html><svg></svg></html>"),
  ],
  ["a page as an icon", { name: "favicon.ico" }, latin1("<html><script>1</script>")],
  ["PHP", asPng, latin1("<?php system($_GET['c']); ?>")],
  [
    "PHP after the signature of a GIF",
    { name: "a.gif" },
    latin1("GIF89a;<?php system($_GET['c']); ?>"),
  ],
  [
    "a script after the signature of a GIF",
    { name: "a.gif" },
    latin1("GIF89a=1;/*<script>*/alert(1)//"),
  ],
  [
    "a script after the signature of a bitmap",
    { name: "a.bmp" },
    latin1("BM=1;document.write('<script src=x></script>')"),
  ],
  ["a batch file", asPng, latin1("@echo off\r\nformat c:\r\n")],
  ["a link to a page", asPng, latin1("[InternetShortcut]\r\nURL=https://evil.example\r\n")],
  ["a mail with a page", asPng, latin1("MIME-Version: 1.0\r\nContent-Type: multipart/related\r\n")],
  ["an SVG with a script, as a PNG", asPng, svg("<script>alert(1)</script>")],
  ["a page far down in a text", asPng, latin1(`${"x\n".repeat(9_000)}<script>alert(1)</script>`)],
];

/** Pictures by their names, for which a form that asks for pictures must look further. */
const asSvg: Disguise = { name: "a.svg", declaredType: "image/svg+xml" };
const entity = '<!DOCTYPE svg [<!ENTITY j "j">]>';
const asked: readonly (readonly [string, Disguise, Uint8Array])[] = [
  ["an SVG with a script", asSvg, svg("<script>alert(1)</script>")],
  [
    "an SVG with a script in a namespace",
    asSvg,
    svg('<x:script xmlns:x="http://www.w3.org/2000/svg">1</x:script>'),
  ],
  ["an SVG with a handler", asSvg, svg("", "", 'onload="alert(1)"')],
  [
    "an SVG with a handler after many blanks",
    asSvg,
    svg("", "", `onload${" ".repeat(30_000)}="alert(1)"`),
  ],
  [
    "an SVG with a handler that its document type gives",
    asSvg,
    svg("", '<!DOCTYPE svg [<!ATTLIST svg onload CDATA "alert(1)">]>'),
  ],
  [
    "an SVG with a handler far down in an attribute list",
    asSvg,
    svg(
      "",
      `<!DOCTYPE svg [<!ATTLIST svg ${'a CDATA ">" '.repeat(9_000)}onload\nCDATA "alert(1)">]>`,
    ),
  ],
  [
    "an SVG with an animated handler that its document type names",
    asSvg,
    svg('<set to="x()"/>', '<!DOCTYPE svg [<!ATTLIST set attributeName (onclick) "onclick">]>'),
  ],
  [
    "an SVG with a handler without quotes",
    asSvg,
    latin1('<svg/onload=alert(1) xmlns="http://www.w3.org/2000/svg"></svg>'),
  ],
  ["an SVG with a link that runs", asSvg, svg('<a href="javascript:alert(1)">x</a>')],
  [
    "an SVG with a link that runs, in references",
    asSvg,
    svg('<a href="java&#x0A;script&#58;alert(1)">x</a>'),
  ],
  [
    "an SVG with a link that runs, in an entity",
    asSvg,
    svg('<a href="&j;avascript:alert(1)">x</a>', entity),
  ],
  [
    "an SVG with a script in an entity",
    asSvg,
    svg("&e;", '<!DOCTYPE svg [<!ENTITY e "&#60;script>x&#60;/script>">]>'),
  ],
  ["an SVG with a frame", asSvg, svg('<foreignObject><iframe src="x"/></foreignObject>')],
  ["an SVG with an animated handler", asSvg, svg('<set attributeName="onclick" to="x()"/>')],
  [
    "an SVG with an animated handler, in references",
    asSvg,
    svg('<set attributeName="&#x6f;nclick" to="x()"/>'),
  ],
  ["an SVG with a script far down", asSvg, svg(`${"<g/>".repeat(50_000)}<script>1</script>`)],
  [
    "an SVG with a script in another encoding",
    asSvg,
    svg("+ADw-script+AD4-", '<?xml version="1.0" encoding="UTF-7"?>'),
  ],
  [
    "an SVG with a transformation",
    asSvg,
    svg("", '<?xml-stylesheet type="text/xsl" href="x.xsl"?>'),
  ],
  [
    "an SVG with a script in UTF-16",
    asSvg,
    join(hex("fffe"), Buffer.from(svg("<script>1</script>").toString(), "utf16le")),
  ],
  [
    "an XBM with a script",
    { name: "a.xbm" },
    latin1("#define a_width 1\n/*<script>alert(1)</script>*/"),
  ],
  [
    "a program without any signature",
    { name: "a.tga", declaredType: "image/x-tga" },
    hex("b44ccd21b8004ccd210000"),
  ],
  [
    "a script without any signature",
    { name: "a.tga", declaredType: "image/x-tga" },
    latin1("WScript.Echo 1"),
  ],
  [
    "a compressed SVG",
    { name: "a.svgz", declaredType: "image/svg+xml" },
    join(hex("1f8b0800000000000003"), zeros(30)),
  ],
  [
    "PostScript",
    { name: "a.eps", declaredType: "image/x-eps" },
    latin1("%!PS-Adobe-3.0 EPSF-3.0\n(x) run\n"),
  ],
  ["a picture that is called a page", { name: "a.html", declaredType: "image/png" }, pixel],
  ["a picture that is called PHP", { name: "a.phtml", declaredType: "image/png" }, pixel],
  ["a picture that is called an application of HTML", { name: "a.hta" }, pixel],
  ["a picture that is called a JAR", { name: "a.jar", declaredType: "image/png" }, pixel],
  ["a picture that is called a program", { name: "a.exe" }, pixel],
  ["a picture that is declared a page", { name: "a.png", declaredType: "text/html" }, pixel],
];

const accepts = [
  ["image/*"],
  ["image/png", "image/bmp", "image/gif", "image/svg+xml"],
  [".png", ".bmp", ".gif", ".svg", ".ico"],
];

test.for([...programs, ...scripts])(
  "%s is refused, whether pictures are asked for or anything",
  async ([, told, bytes]) => {
    for (const accept of [...accepts, [], ["*/*"]])
      for (const chunkBytes of [bytes.length, 997])
        expect(await kindOf(told, bytes, accept, chunkBytes)).toBe("unsupported");
  },
);

test.for(asked)("%s is refused where pictures are asked for", async ([, told, bytes]) => {
  for (const accept of accepts)
    for (const chunkBytes of [bytes.length, 997])
      expect(await kindOf(told, bytes, accept, chunkBytes)).toBe("unsupported");
});

test("an SVG that has a script and says so is one where everything is accepted", async () => {
  const bytes = svg("<script>alert(1)</script>");
  expect(await kindOf(asSvg, bytes, [])).toBe("image/svg+xml");
});

test("a program and a script under their own names are taken where everything is accepted", async () => {
  const elf = join(hex("7f454c4602010100"), zeros(60));
  for (const name of ["a.so", "a.so.1", "a.node", "program", "a.bin", "a.cgi"])
    expect(await kindOf({ name }, elf, [])).toBe("application/x-elf");
  for (const name of ["a.sh", "a.py", "a.ts", "a", "a.txt", "a.html"])
    expect(await kindOf({ name }, latin1("#!/bin/sh\n"), [])).not.toBe("unsupported");
});

test(
  "an ordinary drawing, however long and in whatever pieces, is a picture",
  { tags: "slow" },
  async () => {
    const drawing = svg(
      '<text x="1">only one on two &#45; = three &lt;script&gt;</text><path d="M0 0&#10;L1 1"/>'.repeat(
        5_000,
      ),
      '<?xml version="1.0" encoding="utf-8"?>\n<?xml-stylesheet href="a.css" type="text/css"?>\n<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://www.w3.org/Graphics/SVG/1.1/DTD/svg11.dtd" [<!ENTITY ns_svg "http://www.w3.org/2000/svg"><!ATTLIST svg xmlns:xlink CDATA #FIXED "http://www.w3.org/1999/xlink">]>\n',
      'version="1.1" direction="ltr"',
    );
    for (const chunkBytes of [1_000_000, 1_009])
      expect(await kindOf(asSvg, drawing, ["image/*"], chunkBytes)).toBe("image/svg+xml");
  },
);
