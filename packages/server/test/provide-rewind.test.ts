import { describe, expect, test } from "vitest";
import type { Provider, ProvideRequest } from "../src/provide/provider.ts";
import { backendOf, receive, receiveText } from "./provide-fixture.ts";

const content = "0123456789";

/** A provider of ten digits in chunks of three, and what it was asked to make. */
function createDigits(
  rewind: "from the start" | "from a byte",
  changes: Partial<Provider> = {},
): { readonly provider: Provider; readonly starts: number[]; readonly state: { open: number } } {
  const starts: number[] = [];
  const state = { open: 0 };
  async function* from(start: number): AsyncGenerator<string> {
    starts.push(start);
    state.open += 1;
    try {
      for (let at = start; at < content.length; at += 3) yield content.slice(at, at + 3);
    } finally {
      state.open -= 1;
    }
  }
  const provider: Provider = {
    open: () => from(0),
    describe: () => ({ size: content.length, version: "1" }),
    rewind: rewind === "from the start" ? true : ({ start }) => from(start),
    ...changes,
  };
  return { provider, starts, state };
}

describe.each(["from the start", "from a byte"] as const)("parts made %s", (rewind) => {
  test("are the bytes of each range, and the rest is not waited for", async () => {
    const { provider, starts, state } = createDigits(rewind);
    const backend = backendOf(provider);
    for (let start = 0; start < content.length; start++)
      for (const end of [undefined, start, start + 1, start + 3, content.length, 99]) {
        const range = { start, ...(end !== undefined && { end }) };
        const opened = await backend.open("file", { range });
        const resolved = { start, end: Math.min(end ?? content.length, content.length) };
        expect(opened.range).toEqual(resolved);
        expect(opened.info.size).toBe(content.length);
        expect(await new Response(opened.body).text()).toBe(content.slice(start, end));
      }
    expect(Math.max(...starts)).toBe(rewind === "from the start" ? 0 : 9);
    await expect.poll(() => state.open).toBe(0);
  });

  test("beyond the end are not satisfiable, and nothing is made", async () => {
    const { provider, starts } = createDigits(rewind);
    await expect(backendOf(provider).open("file", { range: { start: 10 } })).rejects.toMatchObject({
      code: "range_not_satisfiable",
      size: 10,
    });
    expect(starts).toEqual([]);
  });

  test("are refused before anything is made if they are of another version", async () => {
    const { provider, starts } = createDigits(rewind);
    const backend = backendOf(provider);
    const { etag = "" } = await backend.describe("file");
    for (const range of [undefined, { start: 3 }])
      await expect(
        backend.open("file", { ifMatch: `${etag}0`, ...(range && { range }) }),
      ).rejects.toMatchObject({ code: "precondition_failed" });
    expect(starts).toEqual([]);
    expect(await receiveText(provider, { ifMatch: etag, range: { start: 3 } })).toBe("3456789");
  });

  test("never look complete if the version changes during the read", async () => {
    for (const range of [undefined, { start: 2 }, { start: 0, end: 9 }, { start: 4, end: 6 }]) {
      let version = 1;
      const { provider, state } = createDigits(rewind, {
        // it has changed each time that it is looked at
        describe: () => ({ size: content.length, version: String(version++) }),
      });
      const options = range ? { range } : {};
      const { bytes, error } = await receive(backendOf(provider), options);
      expect(error).toMatchObject({ code: "precondition_failed" });
      const { start = 0, end = content.length } = range ?? {};
      expect(bytes.byteLength).toBeLessThan(end - start);
      await expect.poll(() => state.open).toBe(0);
    }
  });

  test("never look complete if the resource is gone at the end", async () => {
    let calls = 0;
    const { provider } = createDigits(rewind, {
      describe() {
        calls += 1;
        if (calls > 1) throw new Error("gone");
        return { size: content.length, version: "1" };
      },
    });
    const { bytes, error } = await receive(backendOf(provider));
    expect(String(error)).toContain("gone");
    expect(bytes.byteLength).toBeLessThan(content.length);
  });

  test("are not more than a provider may give; what is left out does not count", async () => {
    const { provider } = createDigits(rewind, { maxBytes: 4 });
    expect(await receiveText(provider, { range: { start: 6 } })).toBe("6789");
    await expect(backendOf(provider).open("file", { range: { start: 5 } })).rejects.toMatchObject({
      code: "too_large",
    });
  });

  test("are an error if the resource is shorter or longer than declared", async () => {
    for (const [size, code] of [
      [12, "interrupted"],
      [100, "interrupted"],
      [9, "corrupt"],
    ] as const) {
      const { provider } = createDigits(rewind, { describe: () => ({ size, version: "1" }) });
      const { error } = await receive(backendOf(provider), { range: { start: 5 } });
      expect(error).toMatchObject({ code });
    }
  });
});

describe("an etag", () => {
  test("needs size, version and rewind; without it there are no parts", async () => {
    const { provider } = createDigits("from the start");
    const { rewind: _, ...once } = provider;
    for (const lacking of [
      once,
      { ...provider, describe: () => ({ size: content.length }) },
      { ...provider, describe: () => ({ version: "1" }) },
    ]) {
      const backend = backendOf(lacking);
      expect((await backend.describe("file")).etag).toBeUndefined();
      await expect(backend.open("file", { range: { start: 0 } })).rejects.toMatchObject({
        code: "unsupported",
      });
      await expect(backend.open("file", { ifMatch: "any" })).rejects.toMatchObject({
        code: "precondition_failed",
      });
      expect(await receiveText(lacking)).toBe(content);
    }
  });

  test("is legal for every version, and another one for another version or URI", async () => {
    const versions = ["1", "2", '"', "W/1", "ü", "a\nb", "\ud800", "\ud801", "x".repeat(10_000)];
    const etags = new Set<string>();
    for (const version of versions) {
      const backend = backendOf(
        { ...createDigits("from the start").provider, describe: () => ({ size: 10, version }) },
        "made://here/{name}",
      );
      for (const key of ["a", "b"]) {
        const { etag = "" } = await backend.describe(key);
        expect(etag).toMatch(/^[0-9a-f]{64}$/);
        etags.add(etag);
      }
    }
    expect(etags.size).toBe(versions.length * 2);
  });
});

describe("the skipped part", () => {
  test("may take longer than the longest wait for a chunk", async () => {
    const slow: Provider = {
      async *open() {
        for (const digit of content) {
          await new Promise((resolve) => setTimeout(resolve, 20));
          yield digit;
        }
      },
      describe: () => ({ size: content.length, version: "1" }),
      rewind: true,
      idleMs: 120,
    };
    expect(await receiveText(slow, { range: { start: 9 } })).toBe("9");
  });

  test("leaves other work its turns, and can be aborted", async () => {
    // without a turn of the event loop, the timer would never fire
    const endless = (): Provider => ({
      async *open() {
        for (;;) yield "x";
      },
      describe: () => ({ size: Number.MAX_SAFE_INTEGER, version: "1" }),
      rewind: true,
    });
    for (const range of [{ start: Number.MAX_SAFE_INTEGER - 1 }]) {
      const caller = new AbortController();
      const reason = new Error("gone");
      setTimeout(() => caller.abort(reason), 20);
      const options = { range, signal: caller.signal };
      expect((await receive(backendOf(endless()), options)).error).toBe(reason);
    }
  });

  test("is left out of the response if chunks are empty for ever", async () => {
    const caller = new AbortController();
    const reason = new Error("gone");
    setTimeout(() => caller.abort(reason), 20);
    const empty = async function* ({ signal }: ProvideRequest): AsyncGenerator<string> {
      while (!signal.aborted) yield "";
    };
    const { error } = await receive(backendOf(empty), { signal: caller.signal });
    expect(error).toBe(reason);
  });
});
