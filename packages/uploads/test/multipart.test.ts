import { setImmediate as breathe } from "node:timers/promises";
import { SluiceError } from "@sluice/core";
import { describe, expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";
import { createFormReader, type PartReceiver } from "../src/receive/form-reader.ts";
import { formOf, pieces, takeApart } from "./forms.ts";
import { otherParsers } from "./other-parsers.ts";

const boundary = "----WebKitFormBoundary7MA4";
const type = `multipart/form-data; boundary=${boundary}`;
const deep = Boolean(process.env["SLUICE_DEEP"]);

describe("a form", () => {
  const good = [
    { content: "hello" },
    { content: "", fileName: `a\\"b%22"; filename*=UTF-8''%C3%A4; size="1` },
    {
      content: `\r\n--${boundary.slice(0, -1)}\r\n--\r\n\r\nx\0\xff`,
      fileName: "b",
      type: "text/plain",
    },
  ];
  const form = formOf(boundary, good);
  const contents = good.map(({ content }) => content);

  test("a form is the same wherever it is cut", async () => {
    expect(await takeApart(type, pieces(form))).toEqual(contents);
    for (let at = 1; at < form.length; at++)
      expect(await takeApart(type, pieces(form, [at, at + 1, at + 3]))).toEqual(contents);
    const bytes = pieces(
      form,
      Array.from(form, (_, at) => at),
    );
    expect(await takeApart(type, bytes)).toEqual(contents);
  });

  test("a preamble and an epilogue of up to 4 KiB are passed over", async () => {
    const around = (before: number, after: number): string =>
      `${"p".repeat(before)}\r\n${form}${"e".repeat(after)}`;
    for (const at of [1, 3_000, 4_100])
      expect(await takeApart(type, pieces(around(4_000, 4_000), [at]))).toEqual(contents);
    for (const text of [around(5_000, 0), around(0, 5_000)])
      expect(await takeApart(type, pieces(text, [4_000]))).toMatchObject({
        code: "invalid_argument",
      });
  });

  const lineFeeds = form.replaceAll("\r\n", "\n");

  const padded = form
    .replaceAll("\r\nContent-Disp", "  \t\r\nContent-Disp")
    .replace(/\r\n$/, " \t\r\n");
  test.for<[string, string, readonly string[]]>([
    ["blanks after its boundaries", padded, contents],
    ["line feeds alone", lineFeeds, contents.map((text) => text.replaceAll("\r\n", "\n"))],
  ])("may have %s", async ([, text, read]) => {
    expect(text).not.toBe(form);
    expect(await takeApart(type, pieces(text))).toEqual(read);
    for (let at = 1; at < text.length; at++)
      expect(await takeApart(type, pieces(text, [at, at + 1, at + 3]))).toEqual(read);
  });

  test("a missing closing boundary is named", async () => {
    for (const text of [form.slice(0, -6), form.slice(0, -4), ""])
      expect(await takeApart(type, pieces(text))).toMatchObject({
        message: expect.stringContaining(`a form ends with --${boundary}--`),
      });
  });

  const headers = (lines: string): string =>
    `--${boundary}\r\n${lines}\r\n\r\nx\r\n--${boundary}--\r\n`;
  const file = 'Content-Disposition: form-data; name="file"; filename="a"';
  test.for<[string, string, string?]>([
    ["no closing boundary", form.slice(0, -6)],
    ["a closing boundary that breaks off", form.slice(0, -3)],
    ["nothing", ""],
    ["no part", `--${boundary}--\r\n`],
    ["only the boundary", `--${boundary}`],
    ["another boundary", form, 'multipart/form-data; boundary="other"'],
    [
      "a boundary of 252 bytes",
      formOf("b".repeat(252), good),
      `multipart/form-data; boundary=${"b".repeat(252)}`,
    ],
    ["a boundary that ends with a space", form, 'multipart/form-data; boundary="a "'],
    ["a boundary with other characters", form, 'multipart/form-data; boundary="a\u0001b"'],
    ["two boundaries", form, `${type}; boundary=x`],
    ["no boundary", form, "multipart/form-data"],
    ["another multipart type", form, `multipart/mixed; boundary=${boundary}`],
    ["the field __proto__", formOf(boundary, [{ name: "__proto__", content: "x" }])],
    [
      "another field beside the file",
      formOf(boundary, [...good.slice(1), { name: "note", content: "x" }]),
    ],
    ["an invalid file name", headers('Content-Disposition: form-data; name="file"')],
    ["no disposition", headers("Content-Type: text/plain")],
    ["another disposition", headers('Content-Disposition: attachment; name="file"; filename="a"')],
    ["an empty parameter", headers(file.replace(";", ";;"))],
    ["a parameter that is not there", headers(`${file};`)],
    ["blanks around an equals sign", headers(file.replace("=", " = "))],
    ["an extended parameter that is not a file name", headers(`${file}; name*=utf-8''other`)],
    ["an extended file name in quotes", headers(`${file}; filename*="utf-8''b"`)],
    ["an extended file name without a charset", headers(`${file}; filename*=b`)],
    ["an extended file name in Latin-1", headers(`${file}; filename*=iso-8859-1''b`)],
    ["an extended file name that is empty", headers(`${file}; filename*=utf-8''`)],
    ["an extended file name with a quote in it", headers(`${file}; filename*=utf-8''it's`)],
    ["an extended file name with a line break", headers(`${file}; filename*=utf-8''b%0d%0a`)],
    ["a backslash in the name of the field", headers(file.replace("file", "fi\\le"))],
    ["no header", `--${boundary}\r\n\r\nx\r\n--${boundary}--\r\n`],
    ["a header twice", headers(`${file}\r\n${file}`)],
    ["a header without a name", headers(`${file}\r\n: x`)],
    ["a folded header", headers(`${file};\r\n x=y`)],
    ["a bare line feed in a header", headers(`${file}\nX: y`)],
    ["six headers", headers(`${file}${"abcde".replaceAll(/./g, "\r\n$&: 1")}`)],
    ["headers of more than 2 KiB", headers(`${file}\r\nX: ${"y".repeat(2_050)}`)],
    ["headers without an end", `--${boundary}\r\nX: ${"y".repeat(9_000)}`],
    ["base64 within a part", headers(`${file}\r\nContent-Transfer-Encoding: base64`)],
    [
      "a line that begins with the boundary",
      formOf(boundary, [{ content: `a\r\n--${boundary}x` }]),
    ],
    [
      "a closing boundary whose line goes on",
      `${form.trimEnd()}Content-Type: text/plain\r\n${form}`,
    ],
    ["a boundary among the headers of a part", headers(`${file}\r\n--${boundary}--x: y`)],
    ["a boundary as the first header of a part", headers(`--${boundary}--x: y\r\n${file}`)],
    ["a blank that is not valid in a header", headers(file.replace(": ", ":\xa0"))],
    ["a line feed alone behind the closing boundary", `${form.trimEnd()}\n`],
    ["a boundary behind the closing one", `${form}${form}`],
    ["a first line that ends in a line feed alone", form.replace("\r\n", "\n")],
    [
      "line feeds alone, but behind the content",
      formOf(boundary, [{ content: "a\r" }]).replaceAll("\r\n", "\n"),
    ],
    ["line feeds alone behind a preamble", `p\r\n${form.replaceAll("\r\n", "\n")}`],
    [
      "line feeds alone, but behind the second boundary",
      lineFeeds.replace(`\n--${boundary}\n`, `\n--${boundary}\r\n`),
    ],
    ["more than 60 blanks behind a boundary", form.replace("\r\n", `${" ".repeat(70)}\r\n`)],
    ["a word behind the blanks behind a boundary", form.replace("\r\n", " x\r\n")],
  ])("%s is malformed", async ([, text, contentType = type]) => {
    const cuts = Array.from({ length: 40 }, (_, at) => at * 97 + 1);
    for (const at of [[], cuts])
      expect(await takeApart(contentType, pieces(text, at))).toMatchObject({
        name: "SluiceError",
        code: "invalid_argument",
      });
  });

  test("more files than the slot takes are too many", async () => {
    const many = formOf(
      boundary,
      Array.from({ length: 500 }, () => ({ content: "x" })),
    );
    expect(await takeApart(type, pieces(many))).toMatchObject({ code: "too_large" });
  });

  const bodies = deep ? 500_000 : 2_000;
  test(`is read as other parsers read it, or refused, in each of ${bodies} mutants`, async () => {
    const { taken, misread } = await compare(bodies, createFormReader);
    expect(misread).toEqual([]);
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(bodies);
  });

  test("a reader that takes a form without its end is found out", { tags: "slow" }, async () => {
    // the twin of the comparison
    const lenient: typeof createFormReader = (of, maxParts, onPart) => {
      let last: PartReceiver | undefined;
      const reader = createFormReader(of, maxParts, (facts) => {
        const part = onPart(facts);
        last = part;
        return {
          data: (bytes) => part.data(bytes),
          end() {
            last = undefined;
            part.end();
          },
        };
      });
      return { ...reader, end: () => last?.end() };
    };
    expect((await compare(400, lenient)).misread).not.toEqual([]);
  });

  /** Reads mutated forms: how many are taken, and those that the others or the obvious reading read in another way. */
  async function compare(
    count: number,
    createReader: typeof createFormReader,
  ): Promise<{ taken: number; misread: string[] }> {
    const random = randomNumbers(6);
    let taken = 0;
    const misread: string[] = [];
    for (let round = 0; round < count; round++) {
      const text = mutate(form, random);
      const cuts = Array.from({ length: random(6) }, () => random(text.length + 1));
      const result = await takeApart(type, pieces(text, cuts), { createReader });
      if (result instanceof SluiceError) {
        if (!["invalid_argument", "too_large"].includes(result.code)) throw result;
      } else {
        taken++;
        // blanks after a boundary are taken (RFC 2046 §5.1.1), and the others lose the part
        const plain = text.replaceAll(padding, "");
        const readings = [contentsOf(plain)];
        for (const read of Object.values(otherParsers))
          readings.push((await read(type, pieces(plain, cuts))) ?? []);
        const told = JSON.stringify(result);
        if (readings.some((reading) => JSON.stringify(reading) !== told))
          misread.push(JSON.stringify({ text, told, readings }));
      }
      if (round % 64 === 0) await breathe();
    }
    return { taken, misread };
  }
});

test("other parsers pass over parts and ends that are missing", async () => {
  // why there is a reader of our own
  const text = `--${boundary}\r\nX: y\r\n\r\nlost\r\n${formOf(boundary, [{ content: "x" }])}`;
  for (const read of Object.values(otherParsers))
    expect(await read(type, pieces(text))).toEqual(["x"]);
  expect(await takeApart(type, pieces(text))).toMatchObject({ code: "invalid_argument" });
});

test("a form that can be read in two ways is refused", async () => {
  // the line break that ends the headers is also that of the closing boundary, or it is not
  const text = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n--${boundary}--\r\n`;
  expect(contentsOf(text)).toHaveLength(1);
  expect(await otherParsers["@fastify/busboy"]?.(type, pieces(text))).toEqual([]);
  for (let at = 0; at < text.length; at++)
    expect(await takeApart(type, pieces(text, [at, at + 1]))).toMatchObject({
      code: "invalid_argument",
    });
});

test("a part that is busy gets no more bytes until it is done, and none after a stop", async () => {
  const head = formOf(boundary, [{ content: "" }]).indexOf("\r\n\r\n") + 4;
  const text = formOf(boundary, [{ content: "a\r\n--b" }]);
  const [before, behind] = pieces(text, [head + 5]);
  const got: string[] = [];
  let done = (): void => {};
  const reader = createFormReader(boundary, 1, () => ({
    data(bytes) {
      got.push(Buffer.from(bytes).toString());
      return new Promise((resolve) => (done = resolve));
    },
    end: () => void got.push("end"),
  }));
  const first = reader.write(before!);
  expect(got).toEqual(["a"]);
  done();
  await first;
  const second = reader.write(behind!);
  await breathe();
  // what was held back turned out to be bytes of the file
  expect(got).toEqual(["a", "\r\n--"]);
  reader.stop();
  done();
  await second;
  expect(got).toEqual(["a", "\r\n--"]);
});

test("a part may change the bytes that it gets", async () => {
  const content = "a\r\n--b\r\n--c";
  let got = "";
  const reader = createFormReader(boundary, 1, () => ({
    data(bytes) {
      got += Buffer.from(bytes).toString();
      bytes.fill(0);
      return undefined;
    },
    end() {},
  }));
  const text = formOf(boundary, [{ content }]);
  for (const piece of pieces(
    text,
    Array.from(text, (_, at) => at),
  ))
    await reader.write(piece);
  reader.end();
  expect(got).toBe(content);
});

test("the length that a part of a form says is ignored (RFC 7578 §4.8)", async () => {
  const headers = `Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Length: 2`;
  const text = `--${boundary}\r\n${headers}\r\n\r\nhello\r\n--${boundary}--\r\n`;
  expect(await takeApart(type, pieces(text))).toEqual(["hello"]);
});

/** The obvious reading of a well-formed form. */
function contentsOf(form: string): string[] {
  const between = `\r\n${form}`.split(`\r\n--${boundary}`);
  const parts = between.slice(
    1,
    between.findIndex((piece) => piece.startsWith("--")),
  );
  return parts.map((part) => part.slice(part.indexOf("\r\n\r\n") + 4));
}

const padding = new RegExp(`(?<=(?:^|\r\n)--${boundary})[\\t ]+(?=\r\n)`, "g");
const marks = ["\r", "\n", "\r\n", "\0", "--", '"', ";", "*", "\\", "'", "%0a", "; x*=y"];

function mutate(form: string, random: (below: number) => number): string {
  let text = form;
  for (let times = 1 + random(3); times > 0; times--) {
    const at = random(text.length);
    const to = Math.min(text.length, at + random(40));
    const piece = text.slice(at, to);
    const other = random(text.length);
    text = [
      () => text.slice(0, at) + String.fromCharCode(random(256)) + text.slice(at + 1),
      () => text.slice(0, at) + text.slice(to),
      () => text.slice(0, other) + piece + text.slice(other),
      () => text.slice(0, at),
      () =>
        `${text.slice(0, at)}\r\n--${boundary}${["", "--", "\r\n", "-"][random(4)]}${text.slice(at)}`,
      () => text.slice(0, at) + marks[random(marks.length)] + text.slice(at),
      () => text.replace("\r\n", "\n"),
      () => text,
    ][random(8)]!();
  }
  return text;
}
