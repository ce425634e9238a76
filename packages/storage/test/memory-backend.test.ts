import { describe, expect, test } from "vitest";
import { createMemoryBackend } from "@sluice/storage";
import { checkBackend, conformanceRules } from "@sluice/storage/conformance";
import { createMemoryFixture } from "./examples/memory-fixture.ts";
import { readText } from "./scripted-backend.ts";

describe("the memory backend", () => {
  test("keeps its own copy of the bytes that are put and read", async () => {
    const bytes = new TextEncoder().encode("mine");
    const backend = createMemoryBackend({ a: bytes });
    bytes.fill(0);
    const reader = (await backend.open("a")).body.getReader();
    (await reader.read()).value?.fill(0);
    expect(await readText((await backend.open("a")).body)).toBe("mine");
  });

  test("knows the SHA-256 of bytes and text, and reads generated content where it is wanted", async () => {
    const backend = createMemoryBackend({ text: "abc" });
    const { digests } = await backend.describe("text");
    expect(digests?.sha256).toMatch(/^ba7816bf/);
    const offsets: number[] = [];
    backend.put("generated", {
      size: 2 ** 40,
      read(start, end) {
        offsets.push(start, end);
        return new Uint8Array(end - start);
      },
    });
    const range = { start: 2 ** 39, end: 2 ** 39 + 10 };
    await readText((await backend.open("generated", { range })).body);
    expect(offsets).toEqual([range.start, range.end]);
  });

  test("refuses illegal keys from code as well", () => {
    expect(() => createMemoryBackend({ "../x": "x" })).toThrow(
      expect.objectContaining({ code: "invalid_argument" }),
    );
  });
});

describe("the kit", () => {
  test("checks what it is asked for, and knows its names", async () => {
    const findings = await checkBackend(createMemoryFixture, { only: ["list", "open-empty"] });
    const ids = conformanceRules
      .map(({ id }) => id)
      .filter((id) => id.startsWith("list-") || id === "open-empty");
    expect(findings.map(({ rule }) => rule.id)).toEqual(ids);
    await expect(checkBackend(createMemoryFixture, { only: ["nothing"] })).rejects.toThrow(
      TypeError,
    );
  });

  test("ends between two rules when it is aborted", async () => {
    const signal = AbortSignal.abort("the reason");
    await expect(checkBackend(createMemoryFixture, { signal })).rejects.toBe("the reason");
  });
});
