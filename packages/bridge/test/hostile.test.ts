// @module-tag slow
import { readFileSync, unlinkSync } from "node:fs";
import { SluiceError } from "@sluice/core";
import { isResponse } from "@sluice/core/internal";
import { rewriteSpooled } from "@sluice/bridge/internal";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import * as fc from "fast-check";
import { expect, test } from "vitest";
import {
  answer,
  bytesOf,
  cutAt,
  openBench,
  restore,
  spool,
  type Bench,
  type Limits,
} from "./spooling.ts";
import { createJsonSpooler } from "../src/spool/json-spooler.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const smallAnswers = isDeep ? 100_000 : 1_000;
const long = "x".repeat(200);

/** One file's bytes, where there is one. */
function onlyFile({ spooled }: Bench): Buffer {
  expect(spooled.size).toBe(1);
  const [file] = spooled.values();
  return readFileSync(file!.place);
}

async function expectRefused(text: string, code: string, limits: Limits = {}): Promise<void> {
  await using bench = await openBench();
  const spooling = spool(bench, [text], limits);
  await expect(spooling).rejects.toSatisfy((error) => SluiceError.is(error) && error.code === code);
  expect(bench.names()).toEqual([]);
}

/** Spools an answer that becomes an error. */
async function errorOf(text: string, limits: Limits = {}, bytes = 2 ** 30): Promise<string> {
  await using bench = await openBench(bytes);
  const given = JSON.parse(await spool(bench, [text], limits)) as { error: { message: string } };
  expect(given).toMatchObject({ jsonrpc: "2.0", id: 1, error: { code: -32_603 } });
  expect(bench.names()).toEqual([]);
  expect(bench.spooled.size).toBe(0);
  return given.error.message;
}

const malformed: Readonly<Record<string, string>> = {
  "a string without an end": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}`,
  "an object without an end": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}"}`,
  "an unknown escape": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\\x"}}`,
  "half a \\u": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\\u12"}}`,
  "a wrong \\u": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\\u12g4"}}`,
  "a backslash at the end": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\\`,
  "a NUL in a string": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\0"}}`,
  "a NUL in base64": `{"jsonrpc":"2.0","id":1,"result":{"blob":"${long}\0"}}`,
  "a line end in a string": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\n${long}"}}`,
  "two values": `${answer({ text: long })}${answer({ text: long })}`,
  "a comma too many": `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}",}}`,
};

for (const [what, text] of Object.entries(malformed))
  test(`malformed JSON passes on and leaves no file: ${what}`, async () => {
    await using bench = await openBench();
    for (const chunks of [[text], bytesOf(text)]) {
      const given = await spool(bench, chunks);
      expect(() => JSON.parse(given)).toThrow(SyntaxError);
      expect(bench.names()).toEqual([]);
    }
  });

test("malformed JSON without a long string passes byte for byte", async () => {
  await using bench = await openBench();
  for (const text of ["", "{", '{"a":"b', "\u{feff}{]", '"\\', "nul", "]]}}{{::,,", "\0"])
    expect(await spool(bench, bytesOf(text))).toBe(text);
});

test("any bytes pass as well-formed as they came, and files stay only for whole responses", async () => {
  await using bench = await openBench();
  const pieces = fc.array(
    fc.oneof(
      fc.constantFrom(
        '"',
        "\\",
        "{",
        "}",
        "[",
        "]",
        ",",
        ":",
        "\n",
        "\0",
        "\\ud800",
        "\\udc00",
        '"blob":',
        "1",
      ),
      fc.constantFrom(
        "YWJj",
        "YWI=",
        "abcdefg",
        "\\/",
        "é",
        "null",
        '"id":1,',
        '"result":{',
        '"text":',
      ),
      fc.uint8Array({ maxLength: 3 }),
    ),
    { maxLength: 12 },
  );
  const edit = fc.tuple(fc.nat(200), fc.nat(6), pieces);
  const cuts = fc.array(fc.nat(300), { maxLength: 4 });
  const whole =
    '{"jsonrpc":"2.0","result":{"blob":"YWJjYWJjYWJjYWJj","data":"YWJj\\u0041bc=","text":"abc\\n\\ud83d\\ude00"},"id":1}';
  const property = fc.asyncProperty(edit, cuts, async ([at, removed, added], places) => {
    await emptied(bench);
    const bytes = Buffer.concat([
      Buffer.from(whole.slice(0, at)),
      ...added.map((piece) => Buffer.from(piece)),
      Buffer.from(whole.slice(at + removed)),
    ]);
    const chunks = cutAt(
      bytes,
      places.map((place) => Math.min(place, bytes.length)),
    );
    const said = parsed(bytes.toString());
    const given = await spool(bench, chunks, { inlineBytes: 7 }).catch((error: unknown) => {
      if (SluiceError.is(error)) return undefined;
      throw error;
    });
    expect(bench.names()).toHaveLength(bench.spooled.size);
    const isKept = given !== undefined && isResponse(said);
    expect(isKept || bench.names().length === 0).toBe(true);
    const passed = given === undefined ? said : parsed(given);
    expect(passed === undefined).toBe(said === undefined);
    const restored = isKept ? restore(passed, bench.spooled) : said;
    expect(wellFormed(restored)).toEqual(wellFormed(said));
  });
  // base64 without its padding
  const unpadded: [[number, number, Uint8Array<ArrayBuffer>[]], number[]] = [
    [51, 0, [Uint8Array.from([47, 81])]],
    [],
  ];
  await fc.assert(property, { numRuns: isDeep ? 20_000 : 50, examples: [unpadded] });
});

function parsed(text: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    return undefined;
  }
}

/** Text as UTF-8 can hold it, and bytes in the usual base64: files are read in other spellings, such as without padding. */
function wellFormed(value: unknown): unknown {
  return JSON.parse(JSON.stringify(value ?? null), (name, inner: unknown) => {
    if (typeof inner !== "string") return inner;
    if (name === "blob" || name === "data") return Buffer.from(inner, "base64").toString("base64");
    return Buffer.from(inner).toString();
  });
}

async function emptied({ folder, spooled }: Bench): Promise<void> {
  for (const { path } of await folder.list()) unlinkSync(path);
  spooled.clear();
}

test("100,000 levels pass as they are, before and after a long string", async () => {
  await using bench = await openBench();
  const levels = 100_000;
  const nested = `${"[".repeat(levels)}"${long}"${"]".repeat(levels)}`;
  const text = `{"jsonrpc":"2.0","id":1,"result":{"a":${nested}}}`;
  expect(await spool(bench, [text])).toBe(text);
  const given = await spool(bench, [text.replace('{"a"', `{"text":"${long}","a"`)]);
  expect(given.length).toBeGreaterThan(levels * 2);
  expect(onlyFile(bench).toString()).toBe(long);
  const rewritten = rewriteSpooled(JSON.parse(given) as JSONRPCMessage, bench.spooled);
  expect(rewritten).toMatchObject({ result: { text: expect.stringContaining("In the file") } });
});

test("surrogates alone become U+FFFD, also where a chunk ends between them", async () => {
  const written = String.raw`\ud800${long}\udc00\ud83d\ud83d\ude00\uD83D`;
  const text = `{"jsonrpc":"2.0","id":1,"result":{"text":"${written}"}}`;
  await using bench = await openBench();
  for (let at = 0; at < text.length; at += 1) {
    bench.spooled.clear();
    await spool(bench, cutAt(text, [at]));
    expect(onlyFile(bench).toString()).toBe(`\u{fffd}${long}\u{fffd}\u{fffd}😀\u{fffd}`);
  }
});

test("an escaped quote ends no string, also where a chunk ends at it", async () => {
  const text = `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}\\"${long}"}}`;
  const backslash = text.indexOf("\\");
  for (const at of [backslash, backslash + 1, backslash + 2]) {
    await using bench = await openBench();
    await spool(bench, cutAt(text, [at]));
    expect(onlyFile(bench).toString()).toBe(`${long}"${long}`);
  }
});

test("the last of two members with one name counts, and the file of the first is removed", async () => {
  await using bench = await openBench();
  const text = `{"jsonrpc":"2.0","id":1,"result":{"text":"${long}","text":"${"y".repeat(300)}"}}`;
  await spool(bench, [text]);
  expect(bench.names()).toHaveLength(1);
  expect(onlyFile(bench).toString()).toBe("y".repeat(300));
});

test("a NUL that is written as JSON wants it is part of the text", async () => {
  await using bench = await openBench();
  await spool(bench, [answer({ text: `${long}\0${long}` })]);
  expect(onlyFile(bench).toString()).toBe(`${long}\0${long}`);
});

test("a text that looks like a marker is a text", async () => {
  await using bench = await openBench();
  const marker = `spooled:${"0".repeat(32)}`;
  const text = answer({ content: [{ type: "text", text: marker }], other: long });
  const message = JSON.parse(await spool(bench, [text])) as JSONRPCMessage;
  expect(rewriteSpooled(message, bench.spooled)).toMatchObject({
    result: { content: [{ type: "text", text: marker }] },
  });
});

test("a marker that a server repeats later stands for nothing", async () => {
  await using bench = await openBench();
  const first = JSON.parse(await spool(bench, [answer({ text: long })])) as JSONRPCMessage;
  const { text } = (first as unknown as { result: { text: string } }).result;
  rewriteSpooled(first, bench.spooled);
  const second = JSON.parse(await spool(bench, [answer({ text })])) as JSONRPCMessage;
  expect(rewriteSpooled(second, bench.spooled)).toEqual(JSON.parse(answer({ text })));
});

test("names of members are never spooled, however long", async () => {
  await using bench = await openBench();
  const text = answer({ [long.repeat(10)]: 1, [`\\"${long}`]: { blob: "a" } });
  expect(await spool(bench, [text])).toBe(text);
  expect(await spool(bench, bytesOf(text))).toBe(text);
});

for (const member of ["jsonrpc", "id", "method"])
  test(`a long "${member}" is an error of the stream`, async () => {
    await expectRefused(JSON.stringify({ [member]: long, result: {} }), "protocol");
  });

const places = {
  "error.message": { error: { code: 1, message: long } },
  "uri of contents": { result: { contents: [{ uri: `a:${long}`, text: "" }] } },
  "name of a tool": { result: { tools: [{ name: long }] } },
};

for (const [place, members] of Object.entries(places))
  test(`a long ${place} makes an error of the answer`, async () => {
    const message = await errorOf(JSON.stringify({ jsonrpc: "2.0", ...members, id: 1 }));
    expect(message).toContain("of more than 100 bytes");
  });

test("values that the host returns to the server stay as they are", async () => {
  await using bench = await openBench();
  const text = answer({ nextCursor: long, requestState: long });
  expect(await spool(bench, [text])).toBe(text);
});

test("calls of the server stay as they are, and write no file", async () => {
  await using bench = await openBench();
  const call = { method: "sampling/createMessage", params: { content: { data: long } } };
  const text = JSON.stringify({ jsonrpc: "2.0", id: 1, ...call });
  expect(await spool(bench, [text])).toBe(text);
  const late = JSON.stringify({
    jsonrpc: "2.0",
    params: { level: "info", data: long },
    method: "notifications/message",
  });
  expect(await spool(bench, [late])).toContain("left out");
  expect(bench.names()).toEqual([]);
});

test("a response that no call awaits is discarded", async () => {
  await using bench = await openBench();
  const given = await spool(bench, [answer({ text: long })], { isAwaited: (id) => id !== 1 });
  expect(JSON.parse(given)).toMatchObject({
    id: 1,
    result: { text: expect.stringContaining("left out") },
  });
  expect(bench.names()).toEqual([]);
});

test("an answer with files larger than allowed is an error that says so", async () => {
  expect(await errorOf(answer({ text: "x".repeat(1_001) }), { maxBytes: 1_000 })).toContain(
    "1000 bytes",
  );
  const two = answer({ content: ["x".repeat(600), "y".repeat(600)] });
  expect(await errorOf(two, { maxBytes: 1_000 })).toContain("1000 bytes");
});

test("an answer with too many long strings is an error", async () => {
  const text = answer(Array.from({ length: 4 }, () => long));
  const message = await errorOf(text, { maxStrings: 3 });
  expect(message).toContain("more than 3 long strings");
});

test("an answer that has no room in the folder is an error", async () => {
  expect(await errorOf(answer({ text: long }), {}, 150)).toContain("may have 150 bytes together");
});

test("an answer in an event that fails keeps the id of the event", async () => {
  await using bench = await openBench();
  const event = `id: 7\nevent: message\ndata: ${answer({ text: long })}\n\n`;
  const given = await spool(bench, [event, ": next\n\n"], { framing: "events", maxBytes: 100 });
  expect(given).toMatch(
    /^id: 7\nevent: message\ndata: \{"jsonrpc":"2.0","id":1,"error":.*\}\n\n: next\n\n$/,
  );
});

test("responses with a failed file are the only errors in a batch", async () => {
  await using bench = await openBench();
  const batch = `[${answer({ text: long }, 1)},${answer({ text: "short" }, 2)}]`;
  const given = await spool(bench, [batch], { maxBytes: 100 });
  expect(JSON.parse(given)).toMatchObject([
    { id: 1, error: {} },
    { id: 2, result: { text: "short" } },
  ]);
});

test("an endless string ends the stream, and leaves nothing", async () => {
  await using bench = await openBench();
  const { folder, spooled } = bench;
  const limits = { inlineBytes: 100, maxBytes: 1_000 };
  const spooler = createJsonSpooler({ target: folder, spooled, framing: "lines", ...limits });
  await spooler.write(Buffer.from('{"jsonrpc":"2.0","id":1,"result":{"text":"'));
  const endless = async (): Promise<void> => {
    const mib = Buffer.alloc(2 ** 20, "x");
    for (let count = 0; count < 100; count += 1) await spooler.write(mib);
  };
  await expect(endless()).rejects.toMatchObject({ code: "too_large" });
  expect(bench.names()).toEqual([]);
  expect(await spooler.write(Buffer.from(long))).toEqual([]);
});

test("endless small parts of a message end the stream", async () => {
  await expectRefused(`[${'"abc",'.repeat(1_000)}`, "too_large", { maxMessageBytes: 5_000 });
  await expectRefused(" ".repeat(6_000), "too_large", { maxMessageBytes: 5_000 });
  const events = { framing: "events", maxMessageBytes: 5_000 } as const;
  await expectRefused(": comment\n".repeat(1_000), "too_large", events);
});

test("a string that goes on in the next data line of an event is malformed", async () => {
  await using bench = await openBench();
  for (const length of [20, 200]) {
    const half = "x".repeat(length);
    const event = `data: {"id":1,"result":"${half}\ndata: ${half}"}\n\n`;
    const given = await spool(bench, [event], { framing: "events" });
    expect(given.match(/^data: /gm)).toHaveLength(2);
    expect(() => JSON.parse(given.replaceAll(/^data: /gm, ""))).toThrow(SyntaxError);
    expect(bench.names()).toEqual([]);
  }
});

test("a cut stream leaves no file", async () => {
  await using bench = await openBench();
  for (const framing of ["lines", "events"] as const)
    await spool(bench, [`data: ${answer({ text: long })}`], { framing });
  expect(bench.names()).toEqual([]);
});

test("an abort removes the file under way and rejects with its reason", async () => {
  await using bench = await openBench();
  const { folder, spooled } = bench;
  const controller = new AbortController();
  const limits = { inlineBytes: 100, maxBytes: 2 ** 20, signal: controller.signal };
  const spooler = createJsonSpooler({ target: folder, spooled, framing: "document", ...limits });
  await spooler.write(Buffer.from(`{"id":1,"result":{"text":"${long}`));
  expect(bench.names()).toHaveLength(1);
  const reason = new Error("the host went away");
  controller.abort(reason);
  await expect(spooler.write(Buffer.from(long))).rejects.toBe(reason);
  expect(bench.names()).toEqual([]);
});

test("an abort while a chunk is written leaves nothing either", async () => {
  await using bench = await openBench();
  const { folder, spooled } = bench;
  const limits = { inlineBytes: 100, maxBytes: 2 ** 20 };
  const spooler = createJsonSpooler({ target: folder, spooled, framing: "document", ...limits });
  const writing = spooler.write(Buffer.from(`{"id":1,"result":{"data":"${"YWJj".repeat(50)}?`));
  await Promise.all([writing, spooler.abort(), spooler.abort()]);
  expect(bench.names()).toEqual([]);
});

test(`${smallAnswers} small answers pass byte for byte and leave nothing`, async () => {
  await using bench = await openBench();
  const { folder, spooled } = bench;
  const limits = { inlineBytes: 65_536, maxBytes: 2 ** 20 };
  const spooler = createJsonSpooler({ target: folder, spooled, framing: "lines", ...limits });
  let given = 0;
  for (let id = 0; id < smallAnswers; id += 100) {
    const lines = Array.from({ length: 100 }, (_, at) => `${answer({ text: "small" }, id + at)}\n`);
    const messages = await spooler.write(Buffer.from(lines.join("")));
    given += messages.filter((bytes, at) => Buffer.from(bytes).toString() === lines[at]).length;
  }
  expect(given).toBe(smallAnswers);
  expect(bench.names()).toEqual([]);
  expect(spooled.size).toBe(0);
});
