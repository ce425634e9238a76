// Text that is not UTF-8, as files of the field have it. A further case is a line of the table.
import { readFileSync } from "node:fs";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { createTooled } from "./tooled.ts";

const fixture = (name: string): Uint8Array =>
  new Uint8Array(readFileSync(new URL(`fixtures/text/${name}`, import.meta.url)));
const latin = (text: string): Uint8Array => Uint8Array.from(Buffer.from(text, "latin1"));
const utf16be = (text: string): Uint8Array =>
  new Uint8Array(Buffer.from(`\ufeff${text}`, "utf16le").swap16());

interface Case {
  readonly bytes: Uint8Array;
  readonly args?: object;
  /** As storage has it. */
  readonly contentType?: string;
  readonly text: string;
  readonly encoding?: string;
  /** How many U+FFFD the result admits. */
  readonly unknown?: number;
}

const powerShell = "PowerShell wrote this: ü\r\nline 2\r\n";
const cases: Readonly<Record<string, Case>> = {
  "utf16le-bom.txt": { bytes: fixture("utf16le-bom.txt"), text: powerShell, encoding: "utf-16le" },
  "utf16be.csv": { bytes: utf16be("a;ü\nb;😀\n"), text: "a;ü\nb;😀\n", encoding: "utf-16be" },
  "second-line.txt": {
    bytes: fixture("utf16le-bom.txt"),
    args: { range: "lines 2-2" },
    text: "line 2\r\n",
    encoding: "utf-16le",
  },
  "gbk.txt": {
    bytes: fixture("gbk.txt"),
    args: { encoding: "gbk" },
    text: "第一行：报告\n第二行：数据 42\n",
    encoding: "gbk",
  },
  "shift_jis.csv": {
    bytes: fixture("shift_jis.csv"),
    args: { encoding: "Shift_JIS" },
    text: "名前,数\nりんご,3\n",
    encoding: "shift_jis",
  },
  "cp1252.txt": {
    bytes: fixture("cp1252.txt"),
    args: { encoding: "windows-1252", range: "lines 1-1" },
    text: "Preis: 20 € – “netto”\n",
    encoding: "windows-1252",
  },
  "told by storage": {
    bytes: fixture("gbk.txt"),
    contentType: "text/plain; charset=GBK",
    text: "第一行：报告\n第二行：数据 42\n",
    encoding: "gbk",
  },
  "not told.txt": {
    bytes: latin("gr\xfcn\nrot\n"),
    text: "gr\ufffdn\nrot\n",
    encoding: "utf-8",
    unknown: 1,
  },
  "null for the encoding.txt": {
    bytes: latin("gr\xfcn\n"),
    args: { encoding: null },
    text: "gr\ufffdn\n",
    encoding: "utf-8",
    unknown: 1,
  },
  "valid.txt": { bytes: new TextEncoder().encode("ü\ufffd\n"), text: "ü\ufffd\n" },
};

test.each(Object.entries(cases))("read_file reads %s", async (name, expected) => {
  const { bytes, args, contentType, text, encoding, unknown } = expected;
  const storage = createMemoryBackend();
  storage.put(name, bytes, contentType === undefined ? {} : { contentType });
  const uri = `files://demo/${encodeURIComponent(name)}`;
  const { content, structuredContent } = await createTooled({ storage }).call("read_file", {
    uri,
    ...args,
  });
  expect(structuredContent).toMatchObject({ uri, text });
  expect([content[0].text, structuredContent.encoding]).toEqual([text, encoding]);
  const said = /(\d+) U\+FFFD stand for bytes that are not/.exec(content[1].text);
  expect(said?.[1]).toBe(unknown === undefined ? undefined : String(unknown));
});

test("lines around two bad bytes in a log are read, wherever they are, and by bytes", async () => {
  const storage = createMemoryBackend({ "two-bad-bytes.txt": fixture("two-bad-bytes.txt") });
  const { call } = createTooled({ storage });
  const uri = "files://demo/two-bad-bytes.txt";
  const lines = Buffer.from(fixture("two-bad-bytes.txt")).toString().split("\n");
  const bad = lines.findIndex((line) => line.includes("\ufffd"));
  expect(bad).toBeGreaterThan(0);
  const around = await call("read_file", { uri, range: `lines ${bad}-${bad + 2}` });
  expect(around.structuredContent.text).toBe(`${lines.slice(bad - 1, bad + 2).join("\n")}\n`);
  expect(around.structuredContent.next).toBe(`lines ${bad + 3}-`);
  let text = "";
  for (let next: string | undefined = "bytes 0-999"; next !== undefined;) {
    const { structuredContent } = await call("read_file", { uri, range: next });
    text += structuredContent.text;
    const from: string | undefined = /\d+/.exec(structuredContent.next ?? "")?.[0];
    next = from === undefined ? undefined : `bytes ${from}-${Number(from) + 999}`;
  }
  expect(text.split("\n")).toEqual(lines);
});

test("parts of text in UTF-16 give the whole, none of them with half a character", async () => {
  const whole = "😀ü\n".repeat(2_000);
  const storage = createMemoryBackend({ "a.txt": utf16be(whole) });
  const { call } = createTooled({ storage });
  let text = "";
  for (let next: string | undefined = "bytes 0-"; next !== undefined;) {
    const { structuredContent }: any = await call("read_file", {
      uri: "files://demo/a.txt",
      range: next.replace(/-$/, `-${Number(/\d+/.exec(next)![0]) + 998}`),
    });
    expect(structuredContent.size).toBeUndefined();
    text += structuredContent.text;
    ({ next } = structuredContent);
  }
  expect(text).toBe(whole);
});

test("bytes that no text has are not read as another encoding, and resources/read stays exact", async () => {
  const storage = createMemoryBackend({
    "cat.png": latin("\x89PNG\xff"),
    "data.bin": latin("\xff\xfe\0\0\x01\0\0\0"),
    "log.txt": latin("a\xff"),
  });
  const { call, ask } = createTooled({ storage });
  for (const name of ["cat.png", "data.bin"]) {
    const { structuredContent } = await call("read_file", { uri: `files://demo/${name}` });
    expect([name, structuredContent.text]).toEqual([name, undefined]);
  }
  const { contents } = await ask("resources/read", { uri: "files://demo/log.txt" });
  expect(contents[0]).toMatchObject({ blob: "Yf8=" });
});

test("an encoding that nobody knows is said, with those that there are", async () => {
  const storage = createMemoryBackend({ "a.txt": "a" });
  const { isError, content } = await createTooled({ storage }).call("read_file", {
    uri: "files://demo/a.txt",
    encoding: "klingon",
  });
  expect([isError, content[0].text]).toEqual([true, expect.stringContaining("shift_jis")]);
});
