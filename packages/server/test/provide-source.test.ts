import { Readable } from "node:stream";
import { describe, expect, test } from "vitest";
import type { Principal } from "@sluice/core";
import { createProviderBackend } from "../src/provide/provider-backend.ts";
import { createProviderRoute } from "../src/provide/provider-route.ts";
import type { Provided, ProvideRequest } from "../src/provide/provider.ts";
import { backendOf, receive, receiveText } from "./provide-fixture.ts";

async function* generate<T>(...chunks: readonly T[]): AsyncGenerator<T> {
  yield* chunks;
}

/** Each form that gives chunks, from the same chunks. */
const forms: Readonly<Record<string, (...chunks: never[]) => Provided>> = {
  generator: (...chunks) => generate(...chunks),
  "web stream": (...chunks) => ReadableStream.from(chunks),
  "Node Readable": (...chunks) => Readable.from(chunks, { objectMode: true }),
};

function give(form: string, ...chunks: readonly unknown[]): () => Provided {
  return () => forms[form]!(...(chunks as never[]));
}

describe("text and bytes", () => {
  test("are the whole, and tell its size", async () => {
    for (const [given, text] of [
      ["", ""],
      ["text ☃ 😀", "text ☃ 😀"],
      [new Uint8Array(), ""],
      [new TextEncoder().encode("bytes"), "bytes"],
      [Buffer.from("buffer"), "buffer"],
    ] as const) {
      const { info, body } = await backendOf(() => given).open("file");
      expect(info.size).toBe(Buffer.byteLength(text));
      expect(await new Response(body).text()).toBe(text);
      expect(await receiveText(async () => given)).toBe(text);
    }
  });

  test("come in pieces if they are large", async () => {
    const content = Buffer.alloc(1_000_001, "0123456789");
    const { body } = await backendOf(() => content).open("file");
    const sizes: number[] = [];
    const all: Uint8Array[] = [];
    for await (const chunk of body) {
      sizes.push(chunk.byteLength);
      all.push(chunk);
    }
    expect(Math.max(...sizes)).toBe(256 * 1024);
    expect(Buffer.compare(Buffer.concat(all), content)).toBe(0);
  });

  test("are the same for the next reader if one overwrites them", async () => {
    const content = Buffer.from("constant");
    const backend = backendOf(() => content);
    for (let n = 0; n < 2; n++)
      for await (const chunk of (await backend.open("file")).body) chunk.fill(0);
    expect((await receive(backend)).bytes.toString()).toBe("constant");
  });

  test("are refused before the first byte if their size is not the declared one", async () => {
    for (const size of [0, 3, 5]) {
      const backend = backendOf({ open: () => "text", describe: () => ({ size }) });
      await expect(backend.open("file")).rejects.toMatchObject({ code: "corrupt" });
    }
  });
});

describe.each(Object.keys(forms))("chunks of a %s", (form) => {
  test("may be text, bytes, empty, and mixed", async () => {
    const chunks = ["", "te", new Uint8Array(), Buffer.from("x"), "", "t ☃", ""];
    expect(await receiveText(give(form, ...chunks))).toBe("text ☃");
    expect(await receiveText(give(form))).toBe("");
    expect(await receiveText(give(form, ""))).toBe("");
  });

  test("may cut a character in two", async () => {
    expect(await receiveText(give(form, "a\ud83d", "\ude00b"))).toBe("a😀b");
    expect(await receiveText(give(form, "\ud83d", "", "\ude00"))).toBe("😀");
  });

  test("with a lone surrogate are an error, never another text", async () => {
    for (const chunks of [
      ["a\ud83d"],
      ["\ude00"],
      ["\ud83d", "x"],
      ["\ud83d", Buffer.from("x")],
      ["\ud83d", Buffer.from("x"), "\ude00"],
      ["\ud83d", "\ud83d"],
      ["ok", "a\ude00b", "ok"],
    ]) {
      const { error } = await receive(backendOf(give(form, ...chunks)));
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toContain("made://here/file");
    }
    await expect(backendOf(() => "\ud83d").open("file")).rejects.toThrow(TypeError);
  });

  test("are a TypeError with the URI if they are neither text nor bytes", async () => {
    for (const chunk of [5, true, {}, [1], new ArrayBuffer(2), new Date(), new Float64Array(1)]) {
      const { bytes, error } = await receive(backendOf(give(form, "before", chunk, "after")));
      expect(error).toBeInstanceOf(TypeError);
      expect(String(error)).toContain("made://here/file");
      expect(bytes.toString()).toBe("before");
    }
  });
});

describe("a generator that reuses its buffer", () => {
  const letters = ["a", "b", "c", "d"];

  async function* reuse(): AsyncGenerator<Uint8Array> {
    const buffer = new Uint8Array(4);
    for (const letter of letters) {
      buffer.fill(letter.charCodeAt(0));
      yield buffer;
    }
  }

  /** What a reader has that keeps the chunks, and reads them at the end. */
  async function keptText(given: () => Provided): Promise<string> {
    const kept: Uint8Array[] = [];
    for await (const chunk of (await backendOf(given).open("file")).body) kept.push(chunk);
    return Buffer.concat(kept).toString();
  }

  test("corrupts nothing that was handed on", async () => {
    expect(await keptText(reuse)).toBe("aaaabbbbccccdddd");
    expect(await keptText(() => ReadableStream.from(reuse()))).toBe("aaaabbbbccccdddd");
    // the twin: a Node stream hands its chunks over, and this one may not
    expect(await keptText(() => Readable.from(reuse()))).not.toBe("aaaabbbbccccdddd");
  });

  test("finds its buffer as it left it", async () => {
    const buffer = Buffer.from("same");
    const text = await receiveText(async function* () {
      yield buffer;
      yield buffer;
    });
    expect(text).toBe("samesame");
    for await (const chunk of (await backendOf(() => generate(buffer)).open("file")).body)
      chunk.fill(0);
    expect(buffer.toString()).toBe("same");
  });
});

describe("an invalid source", () => {
  test.each([
    ["nothing", undefined],
    ["null", null],
    ["a number", 5],
    ["an array", ["a"]],
    ["a Blob", new Blob(["text"])],
    ["an ArrayBuffer", new ArrayBuffer(4)],
    ["a function", () => "text"],
    ["a plain object", { url: "https://example.com/" }],
    ["the answer of undici's request", { statusCode: 200, headers: {}, body: Readable.from([]) }],
  ])("%s is a TypeError that says what can", async (_, given) => {
    const opening = backendOf(() => given as never).open("file");
    await expect(opening).rejects.toThrow(TypeError);
    await expect(opening).rejects.toThrow("made://here/file");
    await expect(opening).rejects.toThrow("a Response");
  });

  test.each(Object.keys(forms))("is a %s that was given before", async (form) => {
    const same = give(form, new Uint8Array([1, 2, 3]))();
    const backend = backendOf(() => same);
    const [first, second] = await Promise.all([receive(backend), receive(backend)]);
    const third = await receive(backend);
    expect(first).toEqual({ bytes: Buffer.from([1, 2, 3]) });
    for (const { error } of [second, third]) expect(error).toBeInstanceOf(TypeError);
  });

  test("is a Node stream that was read before", async () => {
    const readable = Readable.from([Buffer.from("abc")]);
    for await (const chunk of readable) expect(String(chunk)).toBe("abc");
    expect((await receive(backendOf(() => readable))).error).toBeInstanceOf(TypeError);
  });

  test("is a stream that is read elsewhere", async () => {
    const stream = ReadableStream.from(["text"]);
    stream.getReader();
    await expect(backendOf(() => stream).open("file")).rejects.toThrow(TypeError);
    const readable = Readable.from(["text"]).on("data", () => {});
    await expect(backendOf(() => readable).open("file")).rejects.toThrow(TypeError);
  });
});

describe("an iterator", () => {
  test("need not have a return, and a failing one does not fail the transfer", async () => {
    for (const end of [
      {},
      {
        return(): never {
          throw new Error("return failed");
        },
      },
      { return: () => Promise.reject(new Error("return failed")) },
    ]) {
      const iterator = { next: async () => ({ done: false, value: "x" }), ...end };
      const iterable = { [Symbol.asyncIterator]: () => iterator } as AsyncIterable<string>;
      const { body } = await backendOf(() => iterable).open("file");
      const reader = body.getReader();
      expect((await reader.read()).done).toBe(false);
      await reader.cancel();
    }
  });

  test("is not ended again if it ended or threw", async () => {
    let returns = 0;
    for (const last of [async () => ({ done: true }), async () => Promise.reject(new Error("x"))]) {
      const iterator = {
        next: last,
        async return() {
          returns += 1;
        },
      };
      const iterable = { [Symbol.asyncIterator]: () => iterator } as never;
      await receive(backendOf(() => iterable));
    }
    expect(returns).toBe(0);
  });
});

describe("a provider", () => {
  test("is told the URI, the variables and the caller", async () => {
    const principal: Principal = { issuer: "https://issuer", subject: "alice", clientId: "app" };
    const asked: ProvideRequest[] = [];
    const backend = createProviderBackend({
      provider: {
        open(request) {
          asked.push(request);
          return "text";
        },
        describe(request) {
          asked.push(request);
          return {};
        },
      },
      route: createProviderRoute("reports://{team}/{+path}.csv"),
      principal,
    });
    await backend.describe("sales/2026/a b.csv");
    await receive(backend, {}, "sales/2026/a b.csv");
    expect(asked).toHaveLength(3);
    for (const request of asked)
      expect(request).toMatchObject({
        uri: "reports://sales/2026/a%20b.csv",
        variables: { team: "sales", path: "2026/a b" },
        principal,
      });
  });

  test("keeps its this", async () => {
    class Report {
      readonly #text = "of the object";
      open(): string {
        return this.#text;
      }
      describe(): { size: number } {
        return { size: this.#text.length };
      }
    }
    expect(await receiveText(new Report())).toBe("of the object");
  });

  test("lists its URI without being asked, and nothing for a template", async () => {
    const never = (): never => {
      throw new Error("asked");
    };
    const provider = { open: never, describe: never, mimeType: "text/csv" };
    const one = backendOf(provider);
    const object = { key: "file", contentType: "text/csv" };
    expect(await one.list()).toEqual({ objects: [object], untyped: true });
    expect((await one.list({ prefix: "fi" })).objects).toEqual([object]);
    expect((await one.list({ prefix: "x" })).objects).toEqual([]);
    await expect(one.list({ cursor: "foreign" })).rejects.toMatchObject({
      code: "invalid_argument",
    });
    expect((await backendOf(provider, "made://here/{+path}").list()).objects).toEqual([]);
  });

  test("tells what it described", async () => {
    const lastModified = new Date(0);
    const told = { size: 4, mimeType: "text/csv", version: "1", lastModified };
    const backend = backendOf({
      open: () => "text",
      describe: () => ({ ...told, sha256: "AB".repeat(32) }),
      mimeType: "text/plain",
    });
    const info = {
      key: "file",
      size: 4,
      contentType: "text/csv",
      lastModified,
      digests: { sha256: "ab".repeat(32) },
    };
    expect(await backend.describe("file")).toEqual(info);
    const opened = await backend.open("file");
    await opened.body.cancel();
    expect(opened.info).toEqual(info);
  });
});
