import { describe, expect, test, vi } from "vitest";
import { type OpenedObject, type Overrides } from "@sluice/storage";
import { withValidation } from "@sluice/storage/internal";
import { createBody } from "@sluice/storage/plugin";
import { createManualClock, settle } from "./manual-clock.ts";
import { bodyOf, createScripted, readText } from "./scripted-backend.ts";

/** A validated backend whose open gives this. */
function opening(opened: OpenedObject): ReturnType<typeof withValidation> {
  return withValidation(createScripted(() => ({ open: () => async () => opened })).backend);
}

/** A listing that is always this page. */
function page(objects: { key: string }[], cursor?: string): Overrides {
  return { list: () => async () => ({ objects, ...(cursor && { cursor }) }) };
}

const never = (): Promise<never> => new Promise<never>(() => {});

describe("arguments", () => {
  test("illegal keys, ranges, limits, cursors and sizes never reach the backend", async () => {
    const { backend, calls } = createScripted(() => ({
      presign: () => never,
      write: () => never,
      remove: () => () => expect.fail("it reached the backend"),
      watch: () => () => expect.fail("it reached the backend"),
    }));
    const validated = withValidation(backend);
    for (const call of [
      () => validated.describe("../x"),
      () => validated.open("a//b"),
      () => validated.open("a", { range: { start: 3, end: 2 } }),
      () => validated.list({ limit: 0 }),
      () => validated.list({ limit: 1.5 }),
      () => validated.list({ cursor: "" }),
      () => validated.list({ cursor: "x".repeat(10_000) }),
      () => validated.list({ prefix: 7 as never }),
      async () => validated.write?.("a", { size: -1 }),
      async () => validated.write?.("a", { ifAbsent: true, ifMatch: "x" }),
      async () => validated.remove?.("../x"),
      async () => validated.watch?.({ cursor: "", signal: new AbortController().signal }),
    ])
      await expect(call()).rejects.toMatchObject({ code: "invalid_argument" });
    expect(calls).toEqual([]);
  });

  test("an aborted signal rejects with its reason, and nothing is asked", async () => {
    const { backend, calls } = createScripted();
    const signal = AbortSignal.abort("the reason");
    await expect(withValidation(backend).describe("a", { signal })).rejects.toBe("the reason");
    await expect(withValidation(backend).open("a", { signal })).rejects.toBe("the reason");
    await expect(withValidation(backend).list({ signal })).rejects.toBe("the reason");
    expect(calls).toEqual([]);
  });
});

describe("results", () => {
  test("a change without a legal key keeps no other change back", async () => {
    const { backend } = createScripted(() => ({
      watch: () =>
        async function* () {
          yield { changed: ["folder/", "a"], removed: ["a//b", "b"], cursor: "c" };
          yield { reset: true };
        },
    }));
    const batches = [];
    for await (const batch of withValidation(backend).watch!({
      signal: new AbortController().signal,
    }))
      batches.push(batch);
    expect(batches).toEqual([{ changed: ["a"], removed: ["b"], cursor: "c" }, { reset: true }]);
  });

  test("a body shorter than its size is interrupted", async () => {
    const { body } = await opening({ info: { key: "a", size: 10 }, body: bodyOf("12345") }).open(
      "a",
    );
    await expect(readText(body)).rejects.toMatchObject({ code: "interrupted" });
  });

  test("a body longer than its size is corrupt, and never complete before that is known", async () => {
    const { body } = await opening({
      info: { key: "a", size: 4 },
      body: bodyOf("12", "34", "5"),
    }).open("a");
    const reader = body.getReader();
    expect((await reader.read()).value).toEqual(new TextEncoder().encode("12"));
    await expect(reader.read()).rejects.toMatchObject({ code: "corrupt" });
  });

  test("a range is counted by its own length", async () => {
    const opened = { info: { key: "a", size: 10 }, range: { start: 2, end: 5 } };
    const range = { start: 2, end: 5 };
    const right = await opening({ ...opened, body: bodyOf("2", "34") }).open("a", { range });
    expect(await readText(right.body)).toBe("234");
    const short = await opening({ ...opened, body: bodyOf("23") }).open("a", { range });
    await expect(readText(short.body)).rejects.toMatchObject({ code: "interrupted" });
  });

  test("without a size a body ends where it ends", async () => {
    const { body } = await opening({ info: { key: "a" }, body: bodyOf("12", "345") }).open("a");
    expect(await readText(body)).toBe("12345");
  });

  test("an answer to another question is refused and let go of", async () => {
    const range = { start: 2, end: 5 };
    for (const [given, asked, code] of [
      [{}, { range }, "corrupt"],
      [{ range: { start: 0, end: 5 } }, { range }, "corrupt"],
      [{ range: { start: 2, end: 9 } }, { range }, "corrupt"],
      [{ range: { start: 2, end: 4 } }, { range }, "corrupt"],
      [{ range }, {}, "corrupt"],
      [{}, { ifMatch: "another" }, "precondition_failed"],
    ] as const) {
      const release = vi.fn<(reason?: unknown) => void>();
      const body = createBody({ next: never, release });
      const validated = opening({ info: { key: "a", size: 10, etag: "one" }, ...given, body });
      await expect(validated.open("a", asked)).rejects.toMatchObject({ code });
      expect(release).toHaveBeenCalledOnce();
    }
  });

  test("pages longer than asked for or going in circles are corrupt; entries without a key are left out", async () => {
    const keys = [{ key: "a" }, { key: "b/" }, { key: "../c" }];
    const two = withValidation(createScripted(() => page(keys)).backend);
    await expect(two.list({ limit: 2 })).rejects.toMatchObject({ code: "corrupt" });
    expect((await two.list()).objects).toEqual([{ key: "a" }]);
    const circle = withValidation(createScripted(() => page([], "same")).backend);
    await expect(circle.list({ cursor: "same" })).rejects.toMatchObject({ code: "corrupt" });
  });

  test("the file face is passed on as it is, and no body is made", async () => {
    const file = {
      fd: 0,
      start: 0,
      end: 10,
      verify: never,
      close: vi.fn<() => Promise<void>>(async () => {}),
    };
    const opened = {
      info: { key: "a", size: 10 },
      file,
      get body(): never {
        return expect.fail("the body was made");
      },
    };
    expect((await opening(opened).open("a")).file).toBe(file);
  });

  test("a file face of another length is corrupt and closed", async () => {
    const close = vi.fn<() => Promise<void>>(async () => {});
    const file = { fd: 0, start: 0, end: 9, verify: never, close };
    const validated = opening({ info: { key: "a", size: 10 }, file, body: bodyOf() });
    await expect(validated.open("a")).rejects.toMatchObject({ code: "corrupt" });
    expect(close).toHaveBeenCalledOnce();
  });

  test("a bytes face is passed on as it is, and of another length is corrupt", async () => {
    const bytes = new Uint8Array(10);
    const opened = { info: { key: "a", size: 10 }, bytes, body: bodyOf() };
    expect((await opening(opened).open("a")).bytes).toBe(bytes);
    const wrong = opening({ ...opened, info: { key: "a", size: 11 } });
    await expect(wrong.open("a")).rejects.toMatchObject({ code: "corrupt" });
  });
});

describe("waits", () => {
  test("a call that is not answered in time is timeout, and what comes later is let go of", async () => {
    const clock = createManualClock();
    let answer: ((opened: OpenedObject) => void) | undefined;
    const { backend } = createScripted(() => ({
      open: () => () => new Promise((resolve) => (answer = resolve)),
    }));
    const waiting = withValidation(backend, { clock, idleMs: 500 }).open("a");
    waiting.catch(() => {});
    await clock.advance(499);
    await clock.advance(1);
    await expect(waiting).rejects.toMatchObject({ code: "timeout", retryable: true });
    const release = vi.fn<(reason?: unknown) => void>();
    answer?.({ info: { key: "a" }, body: createBody({ next: never, release }) });
    await settle();
    expect(release).toHaveBeenCalledOnce();
    expect(clock.waiting()).toBe(0);
  });

  test("a stalled body is timeout, and each chunk has its own time", async () => {
    const clock = createManualClock();
    const release = vi.fn<(reason?: unknown) => void>();
    let resolve: ((chunk: Uint8Array) => void) | undefined;
    const body = createBody({ next: () => new Promise((give) => (resolve = give)), release });
    const { backend } = createScripted(() => ({
      open: () => async () => ({ info: { key: "a" }, body }),
    }));
    const opened = await withValidation(backend, { clock, idleMs: 500 }).open("a");
    const reader = opened.body.getReader();
    for (let chunk = 0; chunk < 3; chunk++) {
      const read = reader.read();
      await clock.advance(400);
      resolve?.(new Uint8Array(1));
      expect((await read).done).toBe(false);
    }
    await clock.advance(10_000);
    const read = reader.read();
    read.catch(() => {});
    await clock.advance(500);
    await expect(read).rejects.toMatchObject({ code: "timeout" });
    expect(release).toHaveBeenCalledOnce();
    expect(clock.waiting()).toBe(0);
  });

  test("an abort ends a stalled call and a stalled body at once, and lets go", async () => {
    const caller = new AbortController();
    const release = vi.fn<(reason?: unknown) => void>();
    const body = createBody({ next: never, release });
    const { backend } = createScripted(() => ({
      describe: () => never,
      open: () => async () => ({ info: { key: "a" }, body }),
    }));
    const validated = withValidation(backend, { clock: createManualClock() });
    const { signal } = caller;
    const describing = validated.describe("a", { signal });
    const reading = (await validated.open("a", { signal })).body.getReader().read();
    caller.abort("the reason");
    await expect(describing).rejects.toBe("the reason");
    await expect(reading).rejects.toBe("the reason");
    expect(release).toHaveBeenCalledOnce();
  });

  test("cancelling goes through to the backend with its reason", async () => {
    const release = vi.fn<(reason?: unknown) => void>();
    const body = createBody({ next: never, release });
    await (await opening({ info: { key: "a" }, body }).open("a")).body.cancel("enough");
    expect(release).toHaveBeenCalledExactlyOnceWith("enough");
  });
});
