import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import {
  boundaryOf as readBoundary,
  readJsonPart,
  readMultipart,
} from "@sluice/binary-transfer/internal";
import { writeMultipart } from "../src/multipart/write-multipart.ts";
import { describe, expect, test } from "vitest";
import { pieces, readAll } from "./multipart-text.ts";

const bodyOf = (...chunks: (string | Uint8Array)[]): ReadableStream<Uint8Array> =>
  new ReadableStream({
    start(controller) {
      for (const chunk of chunks)
        controller.enqueue(typeof chunk === "string" ? Buffer.from(chunk, "latin1") : chunk);
      controller.close();
    },
  });
const part = (streamId: string, ...chunks: string[]) => ({
  streamId,
  mimeType: "image/png",
  size: chunks.join("").length,
  body: bodyOf(...chunks),
});
const textOf = async (body: ReadableStream<Uint8Array>): Promise<string> =>
  Buffer.from(await new Response(body).arrayBuffer()).toString("latin1");
const boundaryOf = (contentType: string): string => contentType.split("boundary=")[1]!;

describe("writing", () => {
  test("a written message reads back, whatever the pieces, and has its promised length", async () => {
    const message = writeMultipart('{"é":1}', [
      part("a", "one", "two"),
      part("b"),
      part("c", "\r\n--"),
    ]);
    const text = await textOf(message.body);
    expect(text.length).toBe(message.contentLength);
    for (const size of [1, 2, 3, 60, 10_000]) {
      const parts = await readAll(text, boundaryOf(message.contentType), size);
      expect(parts.map((each) => [each.headers.contentId, each.text])).toEqual([
        [undefined, Buffer.from('{"é":1}').toString("latin1")],
        ["a", "onetwo"],
        ["b", ""],
        ["c", "\r\n--"],
      ]);
      expect(parts[0]!.headers.mimeType).toBe("application/json");
      expect(parts[1]!.headers).toEqual({
        mimeType: "image/png",
        contentId: "a",
        contentLength: 6,
      });
    }
  });

  test("no two messages have the same boundary, and receivers that search find the same parts", async () => {
    const messages = [writeMultipart("{}", [part("a", "x")]), writeMultipart("{}", [])];
    const [one, other] = messages.map(({ contentType }) => boundaryOf(contentType));
    expect(one).not.toBe(other);
    const text = (await textOf(messages[0]!.body)).replace(/Content-Length: \d+\r\n/g, "");
    expect((await readAll(text, one!)).map((each) => each.text)).toEqual(["{}", "x"]);
  });

  test.each([
    ["short", ["12"], "interrupted"],
    ["long", ["123", "4"], "corrupt"],
  ])("a body that is too %s breaks the message off", async (_, chunks, code) => {
    const message = writeMultipart("{}", [{ ...part("a"), size: 3, body: bodyOf(...chunks) }]);
    await expect(textOf(message.body)).rejects.toMatchObject({ code });
  });

  test("a part that echoes the boundary breaks the message off before it is through", async () => {
    const seen: string[] = [];
    let delimiter = "";
    const echo = (cut: number): ReadableStream<Uint8Array> => {
      const chunks = ["safe\r", "\n--", "", "more"];
      return new ReadableStream({
        pull(controller) {
          const chunk = chunks.shift();
          if (chunk === undefined) return controller.close();
          const text = chunk === "" ? delimiter.slice(4 + cut) : chunk;
          controller.enqueue(
            Buffer.from(chunk === "\n--" ? chunk + delimiter.slice(4, 4 + cut) : text),
          );
        },
      });
    };
    for (const cut of [0, 5, 20]) {
      const message = writeMultipart("{}", [{ ...part("a"), size: 1_000, body: echo(cut) }]);
      delimiter = `\r\n--${boundaryOf(message.contentType)}`;
      await expect(textOf(message.body).then((text) => seen.push(text))).rejects.toMatchObject({
        code: "corrupt",
      });
    }
    expect(seen).toEqual([]);
  });

  test("a reader that stops cancels the current part and those after it", async () => {
    const cancelled: string[] = [];
    const endless = (streamId: string) => ({
      ...part(streamId),
      size: 10,
      body: new ReadableStream<Uint8Array>({
        pull: (controller) => controller.enqueue(Buffer.from("x")),
        cancel: () => void cancelled.push(streamId),
      }),
    });
    const reader = writeMultipart("{}", [endless("a"), endless("b")]).body.getReader();
    for (let step = 0; step < 4; step += 1) await reader.read();
    await reader.cancel("enough");
    expect(cancelled.toSorted()).toEqual(["a", "b"]);
  });
});

describe("reading", () => {
  const message = (...lines: string[]): string => lines.join("\r\n");

  test("preamble, padding and epilogue are passed over, and a part without a head is text", async () => {
    const text = message(
      "before",
      "--b  ",
      "",
      "one",
      "--b\t",
      "X-Any: 1",
      "",
      "two",
      "--b--after",
      "",
    );
    for (const size of [1, 5, 1_000])
      expect(await readAll(text, "b", size)).toEqual([
        { headers: { mimeType: "text/plain" }, text: "one" },
        { headers: { mimeType: "text/plain" }, text: "two" },
      ]);
  });

  const bad: readonly [string, string, string][] = [
    ["no closing delimiter", message("--b", "", "one", "--b", ""), "interrupted"],
    ["an end within a part", message("--b", "", "one"), "interrupted"],
    ["nothing at all", "", "interrupted"],
    ["4 KiB before the first part", message("x".repeat(4_097), "--b", "", "", "--b--"), "protocol"],
    ["4 KiB behind the last part", message("--b", "", "", `--b--${"x".repeat(4_097)}`), "protocol"],
    [
      "a line that begins as a delimiter",
      message("--b", "", "one", "--bc", "", "--b--"),
      "protocol",
    ],
    ["a head of 2 KiB", message("--b", `a: ${"x".repeat(2_046)}`, "", "", "--b--"), "protocol"],
    [
      "six header fields",
      message("--b", ..."abcdef".split("").map((x) => `${x}: 1`), "", "", "--b--"),
      "protocol",
    ],
    [
      "a field twice",
      message("--b", "Content-ID: <a>", "content-id: <b>", "", "", "--b--"),
      "protocol",
    ],
    [
      "a folded field",
      message("--b", "Content-Type: text/plain;", " charset=x", "", "", "--b--"),
      "protocol",
    ],
    ["a bare line feed", "--b\n\none\n--b--", "protocol"],
    ["a control character", message("--b", "a: \0", "", "", "--b--"), "protocol"],
    ["an invalid length", message("--b", "Content-Length: -1", "", "", "--b--"), "protocol"],
    [
      "a length beyond safe integers",
      message("--b", "Content-Length: 9999999999999999", "", "", "--b--"),
      "protocol",
    ],
    ["a content coding", message("--b", "Content-Encoding: gzip", "", "", "--b--"), "protocol"],
    ["base64", message("--b", "Content-Transfer-Encoding: base64", "", "", "--b--"), "protocol"],
    [
      "more bytes than counted",
      message("--b", "Content-Length: 2", "", "one", "--b--"),
      "protocol",
    ],
    [
      "fewer bytes than counted",
      message("--b", "Content-Length: 9", "", "one", "--b--", "x".repeat(9)),
      "protocol",
    ],
  ];
  test.each(bad)("%s is refused", async (_, text, code) => {
    for (const size of [1, 3, 10_000])
      await expect(readAll(text, "b", size)).rejects.toMatchObject({ name: "SluiceError", code });
  });

  test.each(["", "a".repeat(71), "space ", "tab\tb", "ü", 'quo"te', "a;b"])(
    "%j is not a boundary",
    (boundary) => {
      expect(() => readMultipart(async () => undefined, boundary)).toThrow("boundary");
    },
  );

  test("the longest boundary and every character of its set work", async () => {
    for (const boundary of ["a".repeat(70), "'()+_,-./:=? '", "-", "--"])
      expect(
        (await readAll(message(`--${boundary}`, "", `one\r\n--`, `--${boundary}--`), boundary))[0]!
          .text,
      ).toBe("one\r\n--");
  });

  test("an error stays, and what the source throws goes through", async () => {
    const reader = readMultipart(async () => Promise.reject(new Error("gone")), "b");
    await expect(reader.next()).rejects.toThrow("gone");
    await expect(reader.next()).rejects.toThrow("gone");
  });

  test("a part that is not read is passed over", async () => {
    const text = message(
      "--b",
      "",
      "one",
      "--b",
      "Content-Length: 3",
      "",
      "two",
      "--b",
      "",
      "three",
      "--b--",
    );
    const reader = readMultipart(pieces(text, 5), "b");
    await reader.next();
    await reader.next();
    const last = (await reader.next())!;
    expect(Buffer.from((await last.read())!).toString()).toMatch(/^t/);
  });

  test("blanks without an end cost no more than other bytes", { timeout: 5_000 }, async () => {
    const blanks = " ".repeat(2_000);
    // seconds for each of them, where a pattern tries every way to share them out
    for (let tries = 0; tries < 10; tries += 1)
      await expect(
        readAll(message("--b", `Content-Type:${blanks}\x01`, "", "", "--b--"), "b", 4_000),
      ).rejects.toMatchObject({ code: "protocol" });
    for (let tries = 0; tries < 20; tries += 1)
      expect(readBoundary(`multipart/mixed${blanks.repeat(8)}x`)).toBeUndefined();
    expect(readBoundary("multipart/mixed ; boundary=b ; ")).toBe("b");
    const [padded] = await readAll(message("--b", "Content-ID: \t<a> \t", "", "", "--b--"), "b");
    expect(padded!.headers.contentId).toBe("a");
  });

  test("an id may lack its brackets, and a malformed one concerns only its part", async () => {
    const idOf = async (id: string) => {
      const parts = await readAll(
        message("--b", `Content-ID: ${id}`, "", "x", "--b", "", "next", "--b--"),
        "b",
      );
      expect(parts.map(({ text }) => text)).toEqual(["x", "next"]);
      return parts[0]!.headers.contentId;
    };
    for (const id of ["a-1", "<a-1>"]) expect(await idOf(id)).toBe("a-1");
    for (const id of ["", "<>", "<a", "a>", "<a>b", "a b", "<<a>>", "x".repeat(257)])
      expect(await idOf(id)).toBeUndefined();
  });

  test(
    "JSON in single bytes keeps none of the buffers that they are views of",
    { tags: "slow" },
    async () => {
      setFlagsFromString("--expose-gc");
      const collect = runInNewContext("gc") as () => void;
      const json = JSON.stringify("x".repeat(1_000));
      const pull = pieces(message("--b", "Content-Type: application/json", "", json, "--b--"), 1);
      collect();
      const before = process.memoryUsage().arrayBuffers;
      let most = 0;
      let pulls = 0;
      const reader = readMultipart(async () => {
        pulls += 1;
        if (pulls === 1_000) {
          // buffers are given back behind the collector's back
          for (let turn = 0; turn < 3; turn += 1) {
            collect();
            await new Promise((resolve) => setImmediate(resolve));
          }
          most = process.memoryUsage().arrayBuffers - before;
        }
        const byte = await pull();
        const buffer = new Uint8Array(2 ** 14);
        if (byte) buffer.set(byte);
        return byte && buffer.subarray(0, 1);
      }, "b");
      expect(await readJsonPart(reader, 10_000)).toBe(json);
      expect(most).toBeLessThan(2 ** 22);
    },
  );
});
