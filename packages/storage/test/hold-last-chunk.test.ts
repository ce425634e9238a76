import { describe, expect, test, vi } from "vitest";
import { createMemoryBackend, type StorageBackend, wrapBackend } from "@sluice/storage";
import { withDigestCheck } from "@sluice/storage/internal";
import { createBody, holdLastChunk } from "@sluice/storage/plugin";
import { bodyOf, failure, readText } from "./scripted-backend.ts";

describe("holdLastChunk", () => {
  test("the last chunk waits for verify, and verify runs once, after the last byte", async () => {
    const verify = vi.fn<() => Promise<void>>(async () => {});
    const reader = holdLastChunk(bodyOf("a", "b", "c"), verify).getReader();
    const seen: string[] = [];
    for (let read = await reader.read(); !read.done; read = await reader.read())
      seen.push(`${new TextDecoder().decode(read.value)}${verify.mock.calls.length}`);
    expect(seen).toEqual(["a0", "b0", "c1"]);
  });

  test("an error of verify is the body's error, and the last chunk never comes", async () => {
    const error = failure("precondition_failed");
    const reader = holdLastChunk(bodyOf("a", "b"), () => Promise.reject(error)).getReader();
    await reader.read();
    await expect(reader.read()).rejects.toBe(error);
  });

  test("an empty body is verified too", async () => {
    const error = failure("precondition_failed");
    await expect(readText(holdLastChunk(bodyOf(), () => Promise.reject(error)))).rejects.toBe(
      error,
    );
    expect(await readText(holdLastChunk(bodyOf(), async () => {}))).toBe("");
  });

  test("a body that fails by itself is not verified", async () => {
    const verify = vi.fn<() => Promise<void>>(async () => {});
    const error = failure("interrupted");
    await expect(readText(holdLastChunk(bodyOf("a", error), verify))).rejects.toBe(error);
    expect(verify).not.toHaveBeenCalled();
  });

  test("a cancel goes through and nothing is verified", async () => {
    const release = vi.fn<(reason?: unknown) => void>();
    const verify = vi.fn<() => Promise<void>>(async () => {});
    const body = createBody({ next: async () => new Uint8Array(1), release });
    const reader = holdLastChunk(body, verify).getReader();
    await reader.read();
    await reader.cancel("enough");
    expect(release).toHaveBeenCalledExactlyOnceWith("enough");
    expect(verify).not.toHaveBeenCalled();
  });
});

/** The same backend with these bytes as a face of every object. */
function inMemory(backend: StorageBackend, bytes: Uint8Array): StorageBackend {
  return wrapBackend(backend, {
    open: (open) => async (key, options) => ({ ...(await open(key, options)), bytes }),
  });
}

describe("withDigestCheck", () => {
  const store = createMemoryBackend({ a: "the bytes" });
  const altered = wrapBackend(store, {
    open: (open) => async (key, options) => {
      const opened = await open(key, options);
      return { ...opened, body: bodyOf("the ", "bytez") };
    },
  });

  test("whole objects with the promised digest are delivered", async () => {
    expect(await readText((await withDigestCheck(store).open("a")).body)).toBe("the bytes");
  });

  test("one wrong byte is corrupt, and the object never complete", async () => {
    const reader = (await withDigestCheck(altered).open("a")).body.getReader();
    await reader.read();
    await expect(reader.read()).rejects.toMatchObject({ code: "corrupt" });
  });

  test("ranges, objects without a digest, and everything when told, pass unhashed", async () => {
    const range = { start: 0, end: 9 };
    expect(await readText((await withDigestCheck(altered).open("a", { range })).body)).toBe(
      "the bytez",
    );
    const off = withDigestCheck(altered, { verifyDigest: false });
    expect(await readText((await off.open("a")).body)).toBe("the bytez");
    const unknown = wrapBackend(altered, {
      open: (open) => async (key, options) => {
        const { info, body } = await open(key, options);
        return { info: { key: info.key }, body };
      },
    });
    expect(await readText((await withDigestCheck(unknown).open("a")).body)).toBe("the bytez");
  });

  test("the bytes face is hashed at once", async () => {
    const bytes = new TextEncoder().encode("the bytes");
    expect((await withDigestCheck(inMemory(store, bytes)).open("a")).bytes).toBe(bytes);
    const wrong = withDigestCheck(inMemory(store, bytes.toReversed()));
    await expect(wrong.open("a")).rejects.toMatchObject({ code: "corrupt" });
  });

  test("the file face is kept if there is no hash, and dropped if it would pass unseen", async () => {
    const file = { fd: 0, start: 0, end: 9, verify: async () => {}, close: async () => {} };
    const withFile = wrapBackend(store, {
      open: (open) => async (key, options) => ({ ...(await open(key, options)), file }),
    });
    expect((await withDigestCheck(withFile).open("a")).file).toBeUndefined();
    expect((await withDigestCheck(withFile).open("a", { range: { start: 1 } })).file).toBe(file);
  });
});
