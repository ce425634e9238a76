import { describe, expect, test, vi } from "vitest";
import {
  createMemoryBackend,
  type OpenOptions,
  type StorageBackend,
  wrapBackend,
} from "@sluice/storage";
import { withResumedReads } from "@sluice/storage/internal";
import { createBody } from "@sluice/storage/plugin";
import { settle } from "./manual-clock.ts";
import { failure, readText } from "./scripted-backend.ts";

const text = "0123456789".repeat(10);

/** A memory backend whose bodies break after this many bytes each, and the options of every open. */
function breaking(afterBytes: number, error: Error = failure("interrupted")) {
  const store = createMemoryBackend({ a: text });
  const opens: OpenOptions[] = [];
  const backend = wrapBackend(store, {
    open:
      (open) =>
      async (key, options = {}) => {
        opens.push(options);
        const opened = await open(key, options);
        const bytes = new Uint8Array(await new Response(opened.body).arrayBuffer());
        let sent = 0;
        const body = createBody({
          async next() {
            if (sent >= Math.min(afterBytes, bytes.length)) {
              if (sent === bytes.length) return undefined;
              throw error;
            }
            const start = sent;
            sent = Math.min(start + 5, bytes.length);
            return bytes.slice(start, sent);
          },
          signal: options.signal,
        });
        return { ...opened, body };
      },
  });
  return { store, backend, opens };
}

/** Requests of a resumed reader, without their signals. */
function asked(opens: readonly OpenOptions[]): unknown[] {
  return opens.map(({ range, ifMatch }) => ({ range, ifMatch }));
}

describe("resumable", () => {
  test("a body that breaks resumes where it stopped, with the same version and end", async () => {
    const { store, backend, opens } = breaking(40);
    const { etag } = await store.describe("a");
    const { body, info } = await withResumedReads(backend).open("a");
    expect(await readText(body)).toBe(text);
    expect(info.etag).toBe(etag);
    expect(asked(opens)).toEqual([
      { range: undefined, ifMatch: undefined },
      { range: { start: 40, end: 100 }, ifMatch: etag },
      { range: { start: 80, end: 100 }, ifMatch: etag },
    ]);
  });

  test("a range resumes within the range", async () => {
    const { backend, opens } = breaking(10);
    const { body } = await withResumedReads(backend).open("a", { range: { start: 7, end: 30 } });
    expect(await readText(body)).toBe(text.slice(7, 30));
    expect(opens.map(({ range }) => range)).toEqual([
      { start: 7, end: 30 },
      { start: 17, end: 30 },
      { start: 27, end: 30 },
    ]);
  });

  test("two versions are never spliced: a change ends the body with precondition_failed", async () => {
    const { store, backend } = breaking(40);
    const { body } = await withResumedReads(backend).open("a");
    store.put("a", text.toUpperCase());
    await expect(readText(body)).rejects.toMatchObject({ code: "precondition_failed" });
  });

  test("a backend that forgets ifMatch or the range does not make it splice either", async () => {
    for (const forget of ["ifMatch", "range"] as const) {
      const { store, backend } = breaking(40);
      const careless = wrapBackend(backend, {
        open:
          (open) =>
          (key, { [forget]: _forgotten, ...options } = {}) =>
            open(key, options),
      });
      const { body } = await withResumedReads(careless).open("a");
      store.put("a", text.replaceAll("0", "x"));
      await expect(readText(body)).rejects.toMatchObject({ code: "precondition_failed" });
    }
  });

  test.each([undefined, "other"])(
    "an answer that names another version does not continue the body, whatever its description says: %s",
    async (later) => {
      const { backend } = breaking(40);
      let opens = 0;
      const marked = wrapBackend(backend, {
        open: (open) => async (key, options) => {
          const opened = await open(key, options);
          const validator = opens++ === 0 ? "first" : later;
          return { ...opened, ...(validator !== undefined && { validator }) };
        },
      });
      const { body } = await withResumedReads(marked).open("a");
      await expect(readText(body)).rejects.toMatchObject({ code: "precondition_failed" });
    },
  );

  test("without an etag nothing is resumed", async () => {
    const { backend, opens } = breaking(40);
    const anonymous = wrapBackend(backend, {
      open: (open) => async (key, options) => {
        const { body } = await open(key, options);
        return { info: { key, size: text.length }, body };
      },
    });
    const { body } = await withResumedReads(anonymous).open("a");
    await expect(readText(body)).rejects.toMatchObject({ code: "interrupted" });
    expect(opens.length).toBe(1);
  });

  test("only retryable failures are resumed", async () => {
    for (const error of [
      failure("corrupt"),
      failure("precondition_failed"),
      new Error("a mistake"),
    ]) {
      const { backend, opens } = breaking(40, error);
      const { body } = await withResumedReads(backend).open("a");
      await expect(readText(body)).rejects.toBe(error);
      expect(opens.length).toBe(1);
    }
  });

  test("resumes without progress are counted, and then the failure is the reader's", async () => {
    const { backend, opens } = breaking(0);
    const { body } = await withResumedReads(backend, { maxResumes: 2 }).open("a");
    await expect(readText(body)).rejects.toMatchObject({ code: "interrupted" });
    expect(opens.length).toBe(3);
  });

  test("an abort is no reason to resume", async () => {
    const { backend, opens } = breaking(40);
    const caller = new AbortController();
    const { body } = await withResumedReads(backend).open("a", { signal: caller.signal });
    const reader = body.getReader();
    await reader.read();
    caller.abort("the reason");
    await expect(reader.read()).rejects.toBe("the reason");
    expect(opens.length).toBe(1);
  });

  test("a cancel while it reopens ends the reopening, and what was opened is let go of", async () => {
    const release = vi.fn<(reason?: unknown) => void>();
    const later = createBody({ next: async () => undefined, release });
    let answer: (() => void) | undefined;
    let signal: AbortSignal | undefined;
    const { backend } = breaking(5);
    const slow: StorageBackend = wrapBackend(backend, {
      open: (open) => async (key, options) => {
        if (options?.range === undefined) return open(key, options);
        ({ signal } = options);
        const opened = await open(key, options);
        await new Promise<void>((resolve) => (answer = resolve));
        return { ...opened, body: later };
      },
    });
    const reader = (await withResumedReads(slow).open("a")).body.getReader();
    await reader.read();
    const read = reader.read();
    await settle();
    await reader.cancel("enough");
    expect((await read).done).toBe(true);
    expect(signal?.aborted).toBe(true);
    answer?.();
    await settle();
    expect(release).toHaveBeenCalledOnce();
  });
});
