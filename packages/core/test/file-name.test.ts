import { fileNameFromUri, localFileName, sanitizeFileName } from "@sluice/core/internal";
import * as fc from "fast-check";
import { afterEach, describe, expect, test, vi } from "vitest";
import { trueFileName } from "../src/headers/file-name.ts";
import { hostileText } from "./hostile-text.ts";

const numRuns = process.env["SLUICE_DEEP"] ? 100_000 : 3_000;
const bytes = (text: string) => new TextEncoder().encode(text).length;

describe("a file name out of one that others chose", () => {
  test.each([
    ["plain names stay", "report.pdf", "report.pdf"],
    ["spaces and dots inside stay", "a b.c..d.pdf", "a b.c..d.pdf"],
    ["names of any script stay", "отчёт 報告.pdf", "отчёт 報告.pdf"],
    ["only the last component counts", "/etc/passwd", "passwd"],
    ["only the last component counts", "C:\\windows\\win.ini", "win.ini"],
    ["only the last component counts", "..\\../a", "a"],
    ["without a component there is no name", "a/", "download"],
    ["dots do not make a name", "..", "download"],
    ["dots do not make a name", "a/..", "download"],
    ["dots and spaces at the ends go", " ..a.txt. ", "a.txt"],
    ["hidden files are not made", ".bashrc", "bashrc"],
    ["options of programs are prefixed", "-rf", "_rf"],
    ["options of programs are prefixed, even behind dots", ". -rf", "_rf"],
    ["home folders are replaced", "~", "_"],
    ["home folders are replaced", "~root", "_root"],
    ["control characters go", "a\u0000b\r\nc\u007f\u0085.txt", "abc.txt"],
    ["unseen characters go", "a\u200b\u200fb\ufeff.txt", "ab.txt"],
    ["direction changes go", "gpj\u202eexe.\u2066doc\u2069", "gpjexe.doc"],
    ["marks of Arabic direction go", "a\u061cb.txt", "ab.txt"],
    ["separators of lines and paragraphs go", "a\u2028b\u2029.txt", "ab.txt"],
    ["joiners and signs that are not seen go", "a\u2060b\u2064.txt", "ab.txt"],
    [
      "fillers and hyphens that are not seen go",
      "a\u3164b\u00adc\u180e\u206a\u034f.txt",
      "abc.txt",
    ],
    ["selectors of emoji and ideographs stay", "❤\ufe0f葛\u{e0100}.txt", "❤\ufe0f葛\u{e0100}.txt"],
    ["lone surrogates go", "a\ud800b\udc00.txt", "ab.txt"],
    ["pairs of surrogates stay", "😀.txt", "😀.txt"],
    ["characters that Windows forbids are replaced", 'a<b>c:d"e|f?g*.txt', "a_b_c_d_e_f_g_.txt"],
    ["alternate streams of NTFS are not reached", "a.txt::$DATA", "a.txt__$DATA"],
    [
      "joiners of scripts and emoji stay",
      "می\u200cخواهم 👩\u200d🚀.txt",
      "می\u200cخواهم 👩\u200d🚀.txt",
    ],
    ["composed as NFC", "e\u0301.txt", "é.txt"],
    ["composed even over dropped characters", "e\u200b\u0301.txt", "é.txt"],
    ["devices of Windows are prefixed", "CON", "_CON"],
    ["devices with an extension are prefixed", "nul.tar.gz", "_nul.tar.gz"],
    ["devices with spaces are prefixed", "aux .txt", "_aux .txt"],
    ["numbered devices are prefixed", "COM1.log", "_COM1.log"],
    ["numbered devices are prefixed, zero included", "lpt0", "_lpt0"],
    ["numbered devices are prefixed, superscripts included", "COM¹", "_COM¹"],
    ["consoles are prefixed", "conin$", "_conin$"],
    ["names that only begin like a device stay", "console.txt", "console.txt"],
    ["names that only begin like a device stay", "com10", "com10"],
    ["nothing is the usual name", "", "download"],
    ["nothing that can be seen is the usual name", "\u200b \ufeff", "download"],
    ["fillers and tags do not make a name", "\u3164\u00ad\u{e0041}", "download"],
    ["joiners do not make a name", "\u200d.\u200c", "download"],
  ])("%s: %j", (_, name, safe) => expect(sanitizeFileName(name)).toBe(safe));

  const names = { trueFileName, localFileName, sanitizeFileName };
  describe.each(Object.entries(names))("%s, on this system", (_name, nameOf) => {
    test.each([
      ["a space of no width", "a\u200bb.txt", "ab.txt"],
      ["a joiner between letters that never join", "Ma\u200dke\u200cfile", "Makefile"],
      ["a joiner at the end", "می\u200c.txt", "می.txt"],
      ["joiners behind each other", "می\u200c\u200cخ", "میخ"],
      ["a word joiner and a byte order mark", "\ufeffa\u2060b.txt", "ab.txt"],
      ["a soft hyphen", "a\u00adb.txt", "ab.txt"],
      ["a text in tags", "a.txt\u{e0001}\u{e0069}\u{e0067}\u{e007f}", "a.txt"],
      ["the tags of a flag", "\u{1f3f4}\u{e0067}\u{e007f}.txt", "\u{1f3f4}.txt"],
      ["bytes in selectors", "a\ufe00\u{e0101}\u{e01ef}.txt", "a\ufe00.txt"],
      ["a selector of nothing", "\ufe0f.a .\ufe0fb", nameOf === trueFileName ? ".a .b" : "a .b"],
      ["direction marks", "a\u202eb\u061c.txt", "ab.txt"],
    ])("%s is left out", (_what, name, kept) => {
      expect(nameOf(name)).toBe(kept);
      expect(nameOf(kept)).toBe(kept);
    });

    test.each([
      "می\u200cخواهم.txt",
      "क्\u200dष and क्\u200cष",
      "👩\u200d🚀 👩🏽\u200d🚀 ❤\ufe0f\u200d🔥",
      "👨\u200d👩\u200d👧\u200d👦.txt",
      "1\ufe0f\u20e3 葛\u{e0100}.txt",
    ])("%j stays", (name) => expect(nameOf(name)).toBe(name));

    test("a cut leaves no joiner at the end", () => {
      const cut = nameOf(`${"ک\u200c".repeat(100)}.txt`);
      expect(cut).toMatch(/[^\u200c]\.txt$/);
      expect(nameOf(cut)).toBe(cut);
    });
  });

  test("the first name that leaves anything is taken", () => {
    expect(sanitizeFileName(undefined, "..", "b.txt", "c.txt")).toBe("b.txt");
    expect(sanitizeFileName()).toBe("download");
  });

  test("keeps at most 255 bytes, and the extension", () => {
    expect(sanitizeFileName(`${"a".repeat(300)}.tar.gz`)).toBe(`${"a".repeat(252)}.gz`);
    expect(sanitizeFileName("a".repeat(300))).toBe("a".repeat(255));
    expect(sanitizeFileName(`a.${"b".repeat(300)}`)).toBe(`a.${"b".repeat(253)}`);
    expect(sanitizeFileName(`${"é".repeat(300)}.pdf`)).toBe(`${"é".repeat(125)}.pdf`);
    expect(sanitizeFileName(`${"a".repeat(254)} .${"b".repeat(100)}`)).toBe("a".repeat(254));
    expect(bytes(sanitizeFileName(`con.${"a".repeat(300)}`))).toBe(255);
  });

  test("a name that file systems take is not cut", () => {
    for (const name of ["报".repeat(85), `${"报".repeat(83)}.txt`, "a".repeat(255)])
      expect([trueFileName(name), localFileName(name), sanitizeFileName(name)]).toEqual([
        name,
        name,
        name,
      ]);
  });

  test("a cut never falls inside what is seen as one character", () => {
    const family = "👨‍👩‍👧‍👦";
    const shown = `a${family.repeat(10)}.txt`;
    expect(trueFileName(`a${family.repeat(11)}.txt`)).toBe(shown);
    expect(sanitizeFileName(`a${family.repeat(11)}.txt`)).toBe(shown);
    expect(trueFileName("🇩🇪".repeat(40))).toBe("🇩🇪".repeat(31));
    expect(trueFileName(`e${"\u0301".repeat(200)}`)).toBe(`e${"\u0301".repeat(127)}`);
  });

  test("is one safe component whatever the name, and stays as it is", () => {
    const unsafe =
      // oxlint-disable-next-line no-control-regex
      /[/\\<>:"|?*\u0000-\u001f\u007f-\u009f\u200b\u200e\u200f\u202a-\u202e\u2066-\u2069\ufeff\p{Surrogate}]/u;
    const property = fc.property(fc.integer().map(hostileText), (text) => {
      const safe = sanitizeFileName(text);
      return (
        safe !== "" &&
        safe !== "." &&
        safe !== ".." &&
        bytes(safe) <= 255 &&
        !unsafe.test(safe) &&
        !/^[-~. ]|[. ]$/.test(safe) &&
        !/^(?:con|prn|aux|nul|com\d|lpt\d)(?:\.|$)/i.test(safe) &&
        safe.normalize("NFC") === safe &&
        sanitizeFileName(safe) === safe
      );
    });
    expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
  });

  test("a long name costs no more than its length", () => {
    for (const part of [" ", ".", "/", "\u200b", "a.", "e\u0301", "con "])
      expect(bytes(sanitizeFileName(`x${part.repeat(100_000)}x`))).toBeLessThanOrEqual(255);
  });
});

describe("a name as it is", () => {
  test.each([
    [
      "names that file systems take stay",
      'a "b" <c> d|e? *: 50%; f.txt',
      'a "b" <c> d|e? *: 50%; f.txt',
    ],
    ["a leading dot and a trailing one stay", ".gitignore.", ".gitignore."],
    ["composition stays", "e\u0301.txt", "e\u0301.txt"],
    ["directions, controls and lone surrogates go", "a\u202eb\u0000c\u2066d\ud800.txt", "abcd.txt"],
    ["the last component counts", "../x/y.txt", "y.txt"],
    ["a separator of Windows is replaced", "x\\y.txt", "x_y.txt"],
    ["dots do not make a name", "..", "download"],
    ["nothing is the usual name", "", "download"],
  ])("%s: %j", (_, name, exact) => expect(trueFileName(name)).toBe(exact));
});

describe("a name to save under", () => {
  afterEach(() => vi.unstubAllGlobals());
  const on = (platform: string): void => void vi.stubGlobal("process", { platform });

  test("elsewhere than on Windows it is the name as it is, but never a hidden one", () => {
    on("linux");
    expect(localFileName('a "b"? <c>: d|e*.txt')).toBe('a "b"? <c>: d|e*.txt');
    expect(localFileName(". .bashrc")).toBe("bashrc");
    expect(["-rf", ".~", "a-b~"].map((name) => localFileName(name))).toEqual(["_rf", "_", "a-b~"]);
    expect(localFileName("C:\\x\\y.txt")).toBe("y.txt");
    expect(localFileName(undefined, "..", "\u200d", "b.txt")).toBe("b.txt");
    expect(localFileName()).toBe("download");
  });

  test("is valid on Windows there", () => {
    on("win32");
    expect(localFileName('a "b"?.txt')).toBe("a _b__.txt");
    expect(localFileName("nul.txt")).toBe("_nul.txt");
  });

  test("is one component that is not hidden, whatever the name", () => {
    on("linux");
    const property = fc.property(fc.integer().map(hostileText), (text) => {
      const name = localFileName(text);
      return (
        bytes(name) <= 255 &&
        // oxlint-disable-next-line no-control-regex
        !/^[-~. ]|[/\\\u0000-\u001f\u007f-\u009f\u202a-\u202e\u2066-\u2069\p{Surrogate}]|^$/u.test(
          name,
        ) &&
        localFileName(name) === name
      );
    });
    expect(fc.check(property, { numRuns, seed: 1 }).counterexample).toBeNull();
  });
});

test.each([
  ["https://a.example/x/report%20q1.pdf?y=/z#/w", "report q1.pdf"],
  ["files://demo/a/b%2Fc.txt", "b/c.txt"],
  ["file:///a.bin", "a.bin"],
  ["urn:x/a%zz", "a%zz"],
  ["a.txt", "a.txt"],
  ["https://a.example/", undefined],
  ["https://a.example", undefined],
  ["https://a.example?x", undefined],
  ["WSS://a.example/", undefined],
  ["acme://big.bin", "big.bin"],
  ["acme://big%20one.bin/?x=/y#/z", "big one.bin"],
  ["acme://", undefined],
  ["acme://host/sub/", undefined],
  ["", undefined],
])("the last segment of %s is %s", (uri, name) => expect(fileNameFromUri(uri)).toBe(name));
