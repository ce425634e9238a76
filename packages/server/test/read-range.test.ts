import { EXTENSION_ID } from "@sluice/core/internal";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import * as fc from "fast-check";
import { describe, expect, test } from "vitest";
import {
  countLines,
  cutText,
  findLines,
  parseAskedRange,
  toByteRange,
} from "../src/resources/read-range.ts";
import { createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const encoder = new TextEncoder();
const text = fc.string({
  unit: fc.constantFrom("a", "\n", "ü", "€", "𝄞", "\r\n"),
  maxLength: 200,
});

function bodyOf(bytes: Uint8Array, chunkSize: number) {
  let at = 0;
  let cancelled = false;
  const body = new ReadableStream<Uint8Array>(
    {
      pull(controller) {
        if (at >= bytes.length) return controller.close();
        controller.enqueue(bytes.subarray(at, (at += chunkSize)));
      },
      cancel: () => void (cancelled = true),
    },
    { highWaterMark: 0 },
  );
  return { body, taken: () => Math.min(at, bytes.length), isCancelled: () => cancelled };
}

describe("a range", () => {
  test("is written with both ends, from 0 for bytes and from 1 for lines", () => {
    expect(parseAskedRange("bytes 0-99")).toEqual({ unit: "bytes", first: 0, last: 99 });
    expect(parseAskedRange("bytes=5-")).toEqual({ unit: "bytes", first: 5 });
    expect(parseAskedRange(" lines 1–50 ")).toEqual({ unit: "lines", first: 1, last: 50 });
  });

  test.each([
    "",
    "bytes",
    "bytes 5-4",
    "lines 0-3",
    "bytes -5",
    "bytes 1-2, 4-5",
    "pages 1-2",
    7,
    {},
  ])("%j is refused with how to write it", (written) => {
    expect(() => parseAskedRange(written)).toThrow(/bytes 0-99/);
  });

  test("ranges of bytes side by side give the whole text, none with a broken character", () => {
    fc.assert(
      fc.property(text, fc.integer({ min: 1, max: 9 }), (whole, size) => {
        const bytes = encoder.encode(whole);
        let pieces = "";
        for (let first = 0; first < bytes.length; first += size) {
          const { wantedBytes, range } = toByteRange(
            { unit: "bytes", first, last: first + size - 1 },
            1e6,
          );
          const cut = cutText(bytes.subarray(range.start, range.end), {
            start: first,
            wantedBytes,
          })!;
          expect(encoder.encode(cut.text)).toEqual(bytes.subarray(cut.start, cut.end));
          pieces += cut.text;
        }
        expect(pieces).toBe(whole);
      }),
      { numRuns: 300 },
    );
  });

  test("invalid UTF-8 is not cut as text", () => {
    expect(
      cutText(new Uint8Array([0x61, 0xff, 0x62]), { start: 0, wantedBytes: 3 }),
    ).toBeUndefined();
    expect(cutText(new Uint8Array(8).fill(0x80), { start: 4, wantedBytes: 2 })).toBeUndefined();
  });

  test("lines are those that splitting gives, however the body comes", async () => {
    await fc.assert(
      fc.asyncProperty(
        text,
        fc.integer({ min: 1, max: 7 }),
        fc.integer({ min: 1, max: 12 }),
        fc.integer({ min: 0, max: 5 }),
        async (whole, chunkSize, first, more) => {
          const lines = whole
            .split("\n")
            .map((line, n, all) => line + (n < all.length - 1 ? "\n" : ""));
          // an empty text has one line, which is empty
          if (lines.at(-1) === "" && lines.length > 1) lines.pop();
          const { body } = bodyOf(encoder.encode(whole), chunkSize);
          const range = { unit: "lines", first, last: first + more } as const;
          const found = await findLines(body, range, 1e6).then(
            ({ bytes, start }) => [new TextDecoder().decode(bytes), start, countLines(bytes)],
            (error: Error) => error.message,
          );
          const wanted = lines.slice(first - 1, first + more);
          const start = encoder.encode(lines.slice(0, first - 1).join("")).length;
          expect(found).toEqual(
            wanted.length === 0
              ? `sluice: The resource has ${whole === "" ? 0 : lines.length} lines`
              : [wanted.join(""), start, whole === "" ? 0 : wanted.length],
          );
        },
      ),
      { numRuns: 300 },
    );
  });

  test("reading stops at the last line and lets go of the body", async () => {
    const { body, taken, isCancelled } = bodyOf(encoder.encode("line\n".repeat(10_000)), 100);
    await findLines(body, { unit: "lines", first: 2, last: 3 }, 1e6);
    expect(taken()).toBe(100);
    expect(isCancelled()).toBe(true);
  });

  test("a line without an end costs no more memory than was allowed", async () => {
    const { body, taken, isCancelled } = bodyOf(new Uint8Array(1_000_000).fill(0x61), 1_000);
    const { bytes } = await findLines(body, { unit: "lines", first: 1 }, 5_000);
    expect(bytes.length).toBe(5_003);
    expect(taken()).toBeLessThanOrEqual(6_000);
    expect(isCancelled()).toBe(true);
  });
});

const open = { principal: () => ({ issuer: "i", subject: "s", clientId: "c" }) };

function reading(era: (typeof eras)[number], options: { maxReadBytes?: number } = {}) {
  const storage = createMemoryBackend();
  storage.put("t.txt", "eins\nzwölf\ndrei\n");
  storage.put("b.bin", new Uint8Array([0, 1, 2, 3, 0xff, 5]));
  storage.put("none.txt", "");
  const house = createHouse({ ...open, storage, ...options });
  const talk = talkTo(house.sluice);
  return {
    ...house,
    storage,
    read: async (name: string, asked: object) => {
      const params = { uri: `files://demo/${name}`, _meta: { [EXTENSION_ID]: asked } };
      const { message } = await talk(era, "resources/read", { params });
      const content = message.result?.contents[0];
      return { ...message, content, meta: content?._meta?.[EXTENSION_ID] };
    },
  };
}

describe.each(eras)("resources/read of a part in the %s era", (era) => {
  test("bytes of text, whole characters, and what comes next [ARTICLE/12.1/ranged-reads]", async () => {
    const { read } = reading(era);
    const first = await read("t.txt", { range: "bytes 0-7" });
    expect(first.content).toMatchObject({ mimeType: "text/plain", text: "eins\nzwö" });
    expect(first.meta).toMatchObject({ range: "bytes 0-8", next: "bytes 9-", size: 17 });
    const rest = await read("t.txt", { range: first.meta.next });
    expect(rest.content.text).toBe("lf\ndrei\n");
    expect(rest.meta).not.toHaveProperty("next");
  });

  test("bytes of anything else, exactly [ARTICLE/12.1/ranged-reads]", async () => {
    const { read } = reading(era);
    const { content, meta } = await read("b.bin", { range: "bytes 3-4" });
    expect(content.blob).toBe(Buffer.from([3, 0xff]).toString("base64"));
    expect(meta).toMatchObject({ range: "bytes 3-4", next: "bytes 5-" });
  });

  test("lines [ARTICLE/12.1/ranged-reads]", async () => {
    const { read } = reading(era);
    const { content, meta } = await read("t.txt", { range: "lines 2-2" });
    expect(content.text).toBe("zwölf\n");
    expect(meta).toMatchObject({ range: "bytes 5-11", lines: "lines 2-2", next: "lines 3-" });
    expect((await read("t.txt", { range: meta.next })).content.text).toBe("drei\n");
  });

  test("never more than maxReadBytes, and the rest can be asked for", async () => {
    const { read } = reading(era, { maxReadBytes: 6 });
    const { content, meta } = await read("t.txt", { range: "bytes 0-" });
    expect([content.text, meta.next]).toEqual(["eins\nz", "bytes 6-"]);
    const line = await read("t.txt", { range: "lines 2-" });
    expect([line.content.text, line.meta.lines, line.meta.next]).toEqual([
      "zwölf",
      "lines 2-2",
      "bytes 11-",
    ]);
  });

  test("all parts come from the version that is named, or there is an error that says so", async () => {
    const { read, storage } = reading(era);
    const { meta } = await read("t.txt", { range: "lines 1-1" });
    const { etag } = meta;
    expect((await read("t.txt", { range: "lines 2-2", etag })).content.text).toBe("zwölf\n");
    storage.put("t.txt", "other\nlines\n");
    const { error } = await read("t.txt", { range: "lines 2-2", etag });
    expect(error).toMatchObject({ code: -32602, data: { reason: "invalid" } });
    expect(error!.data.suggestion).toMatch(/has changed/);
    expect((await read("t.txt", { etag })).error!.data.suggestion).toMatch(/has changed/);
  });

  test.each([
    ["t.txt", "bytes 17-", /17 bytes/],
    ["t.txt", "lines 4-", /3 lines/],
    ["none.txt", "lines 2-", /0 lines/],
    ["b.bin", "lines 1-2", /UTF-8/],
    ["t.txt", "all of it", /bytes 0-99/],
  ])("%s %s: the error says what can be done", async (name, range, says) => {
    const { error } = await reading(era).read(name, { range });
    expect(error).toMatchObject({ code: -32602, data: { reason: "invalid" } });
    expect(error!.data.suggestion).toMatch(says);
  });

  test("a range asks storage for little more than itself, in one call", async () => {
    const calls: unknown[] = [];
    const storage = wrapBackend(createMemoryBackend({ "big.txt": "x".repeat(1_000_000) }), {
      open: (openObject) => async (key, options) => {
        calls.push(options?.range);
        return openObject(key, options);
      },
    });
    const talk = talkTo(createHouse({ ...open, storage }).sluice);
    const _meta = { [EXTENSION_ID]: { range: "bytes 100-199" } };
    await talk(era, "resources/read", { params: { uri: "files://demo/big.txt", _meta } });
    expect(calls).toEqual([{ start: 100, end: 203 }]);
  });
});
