import { setImmediate as breathe } from "node:timers/promises";
import { SluiceError } from "@sluice/core";
import { describe, expect, test } from "vitest";
import { randomNumbers } from "../../core/test/random-numbers.ts";
import {
  createFastifyParser,
  driveBusboy,
  type BusboyStream,
  type CreateParser,
} from "../src/receive/form-parser.ts";
import { createFormValidator } from "../src/receive/form-validator.ts";
import { createBusboyParser } from "./busboy-parser.ts";
import { formOf, pieces, takeApart } from "./forms.ts";

const boundary = "----WebKitFormBoundary7MA4";
const type = `multipart/form-data; boundary=${boundary}`;
const deep = Boolean(process.env["SLUICE_DEEP"]);

const parsers: readonly (readonly [string, CreateParser])[] = [
  ["@fastify/busboy", createFastifyParser],
  ["busboy 1.6.0", createBusboyParser],
];

describe.for(parsers)("%s behind the validator", ([, createParser]) => {
  const good = [
    { content: "hello" },
    { content: "" },
    {
      content: `\r\n--${boundary.slice(0, -1)}\r\n--\r\n\r\nx\0\xff`,
      fileName: "b",
      type: "text/plain",
    },
  ];
  const form = formOf(boundary, good);
  const contents = good.map(({ content }) => content);

  test("a form is the same wherever it is cut", async () => {
    expect(await takeApart(createParser, type, pieces(form))).toEqual(contents);
    for (let at = 1; at < form.length; at++)
      expect(await takeApart(createParser, type, pieces(form, [at, at + 1, at + 3]))).toEqual(
        contents,
      );
    const bytes = pieces(
      form,
      Array.from(form, (_, at) => at),
    );
    expect(await takeApart(createParser, type, bytes)).toEqual(contents);
  });

  test("a preamble and an epilogue of up to 4 KiB are passed over", async () => {
    const around = (before: number, after: number): string =>
      `${"p".repeat(before)}\r\n${form}${"e".repeat(after)}`;
    for (const at of [1, 3_000, 4_100])
      expect(await takeApart(createParser, type, pieces(around(4_000, 4_000), [at]))).toEqual(
        contents,
      );
    for (const text of [around(5_000, 0), around(0, 5_000)])
      expect(await takeApart(createParser, type, pieces(text, [4_000]))).toMatchObject({
        code: "invalid_argument",
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
    ["a file name that is none", headers('Content-Disposition: form-data; name="file"')],
    ["no disposition", headers("Content-Type: text/plain")],
    ["another disposition", headers('Content-Disposition: attachment; name="file"; filename="a"')],
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
    ["line feeds alone", form.replaceAll("\r\n", "\n")],
  ])("%s is malformed", async ([, text, contentType = type]) => {
    const cuts = Array.from({ length: 40 }, (_, at) => at * 97 + 1);
    for (const at of [[], cuts])
      expect(await takeApart(createParser, contentType, pieces(text, at))).toMatchObject({
        name: "SluiceError",
        code: "invalid_argument",
      });
  });

  test("more files than the slot takes are too many", async () => {
    const many = formOf(
      boundary,
      Array.from({ length: 500 }, () => ({ content: "x" })),
    );
    expect(await takeApart(createParser, type, pieces(many))).toMatchObject({ code: "too_large" });
  });

  const bodies = deep ? 500_000 : 100;
  test(`of ${bodies} mutated forms each is taken as it stands or refused`, async () => {
    const random = randomNumbers(6);
    let taken = 0;
    const misread: string[] = [];
    for (let round = 0; round < bodies; round++) {
      const text = mutate(form, random);
      const cuts = Array.from({ length: random(6) }, () => random(text.length + 1));
      const result = await takeApart(createParser, type, pieces(text, cuts));
      if (result instanceof SluiceError) {
        if (!["invalid_argument", "too_large"].includes(result.code)) throw result;
      } else {
        // what was taken is what any parser would read between these boundaries
        if (JSON.stringify(result) !== JSON.stringify(contentsOf(text)))
          misread.push(JSON.stringify(text));
        taken++;
      }
      if (round % 64 === 0) await breathe();
    }
    expect(misread).toEqual([]);
    expect(taken).toBeGreaterThan(0);
    expect(taken).toBeLessThan(bodies);
  });
});

test("without the fence a parser passes over parts and ends that are missing", async () => {
  // the twin: what the validator is for
  let files = 0;
  const parser = createFastifyParser(type, () => {
    files++;
    return { data: () => undefined, end: () => {} };
  });
  const [body] = pieces(
    `--${boundary}\r\nX: y\r\n\r\nlost\r\n${formOf(boundary, [{ content: "x" }])}`,
  );
  await parser.write(body!);
  await parser.end();
  expect(files).toBe(1);
});

test("a form that the two parsers read in two ways is refused, and each alone would take it", async () => {
  // the line break that ends the headers is also that of the closing boundary, or it is not
  const text = `--${boundary}\r\nContent-Disposition: form-data; name="file"; filename="a"\r\n\r\n--${boundary}--\r\n`;
  const [body] = pieces(text);
  const validator = createFormValidator(boundary, 1);
  validator.check(body!);
  validator.end();
  expect(validator.parts).toHaveLength(1);
  let files = 0;
  const parser = createFastifyParser(type, () => {
    files++;
    return { data: () => undefined, end: () => {} };
  });
  await parser.write(body!);
  await parser.end();
  expect(files).toBe(0);
  const told = await takeApart(createFastifyParser, type, [body!]);
  expect(told).toMatchObject({ code: "invalid_argument" });
});

test("a parser that finishes while it is full keeps no write waiting", async () => {
  const listeners = new Map<string, (...args: never[]) => void>();
  const busboy: BusboyStream = {
    on: (event, listener) => listeners.set(event, listener),
    write: () => false,
    end() {},
    destroy() {},
  };
  const parser = driveBusboy(busboy, () => expect.unreachable("there is no part"));
  const written = parser.write(new Uint8Array(1));
  listeners.get("finish")?.();
  await written;
  await parser.end();
});

test("the length that a part of a form says is ignored (RFC 7578 §4.8)", async () => {
  const headers = `Content-Disposition: form-data; name="file"; filename="a"\r\nContent-Length: 2`;
  const text = `--${boundary}\r\n${headers}\r\n\r\nhello\r\n--${boundary}--\r\n`;
  expect(await takeApart(createFastifyParser, type, pieces(text))).toEqual(["hello"]);
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
      () =>
        text.slice(0, at) + ["\r", "\n", "\r\n", "\0", "--", '"', ";"][random(7)] + text.slice(at),
      () => text.replace("\r\n", "\n"),
      () => text,
    ][random(8)]!();
  }
  return text;
}
