import { readFileSync } from "node:fs";
import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "@sluice/storage";
import {
  beginOperation,
  createBody,
  createPartDriver,
  createWatches,
  formatIfMatch,
  listPage,
  asPrecondition,
  sliceBody,
  toStrongEtag,
} from "@sluice/storage/plugin";
import * as plugin from "@sluice/storage/plugin";
import { expect, test } from "vitest";

const bytes = Uint8Array.from({ length: 10 }, (_, n) => n);

test("an operation begins with signal, key and range, before a service is asked", () => {
  expect(beginOperation("test: open", "a.txt")).toBe('test: open "a.txt"');
  const reason = new Error("the caller's reason");
  expect(() => beginOperation("test: open", "..", { signal: AbortSignal.abort(reason) })).toThrow(
    reason,
  );
  expect(() => beginOperation("test: open", "..")).toThrow(/^test: open "\.\.": the key/);
  expect(() => beginOperation("test: open", "a", { range: { start: 2, end: 1 } })).toThrow(
    /^test: open "a": \[2, 1\)/,
  );
});

test("a cursor belongs to its store and its prefix", async () => {
  const list = (store: string, prefix: string, cursor?: string) =>
    listPage(
      { prefix, ...(cursor ? { cursor } : {}) },
      { operation: "test: list", store },
      (asked) => ({
        objects: [],
        next: asked.after === undefined ? "token" : undefined,
      }),
    );
  const { cursor = "" } = await list("one", "a/");
  expect(await list("one", "a/", cursor)).toEqual({ objects: [] });
  for (const elsewhere of [list("two", "a/", cursor), list("one", "b/", cursor)])
    await expect(elsewhere).rejects.toMatchObject({ code: "invalid_argument" });
});

test("a page has no more objects than the service gives at once", async () => {
  for (const [limit, asked] of [
    [undefined, 1000],
    [7, 7],
    [9000, 5000],
  ] as const) {
    const options = { operation: "test: list", store: "", maxObjects: 5000 };
    await listPage(limit === undefined ? {} : { limit }, options, (request) => {
      expect(request.limit).toBe(asked);
      return { objects: [] };
    });
  }
});

test("parts: a full one waits until there is more, and what follows stays in order", async () => {
  const sent: number[][] = [];
  const info: ObjectInfo = { key: "a" };
  const steps = {
    send: async (part: Uint8Array) => void sent.push([...part]),
    publish: async (last: Uint8Array) => (sent.push([...last]), info),
    release: async () => {},
  };
  const options = { operation: "test: write", partBytes: 4, maxParts: 3 };
  const driver = createPartDriver(steps, options);
  await driver.append(bytes.subarray(0, 4));
  expect(sent).toEqual([]);
  await driver.append(bytes.subarray(4));
  expect(await driver.publish(10)).toBe(info);
  expect(sent).toEqual([
    [0, 1, 2, 3],
    [4, 5, 6, 7],
    [8, 9],
  ]);
  const full = createPartDriver(steps, options).append(new Uint8Array(13));
  await expect(full).rejects.toMatchObject({ code: "too_large" });
  const declared = createPartDriver(steps, { ...options, size: 13 });
  await declared.append(new Uint8Array(13));
  await declared.publish(13);
  expect(sent.slice(-3).map(({ length }) => length)).toEqual([5, 5, 3]);
});

test("parts: a release waits for the current part, and the next step throws its error", async () => {
  const steps: string[] = [];
  const failure = new Error("the part failed");
  let fail = (_reason: Error): void => {};
  const sending = new Promise<void>((_, reject) => (fail = reject));
  const driver = createPartDriver(
    {
      send: () => sending.finally(() => steps.push("settled")),
      publish: async () => ({ key: "a" }),
      release: async () => void steps.push("released"),
    },
    { operation: "test: write", partBytes: 4, maxParts: 9 },
  );
  await driver.append(bytes.subarray(0, 5));
  const publishing = driver.publish(5);
  const releasing = driver.release();
  fail(failure);
  await expect(publishing).rejects.toBe(failure);
  await releasing;
  expect(steps).toEqual(["settled", "released"]);
});

test("a slice gives the bytes of its range, and reads nothing for an empty one", async () => {
  let reads = 0;
  const source = (): ReadableStream<Uint8Array> => {
    let at = 0;
    return createBody({
      next: async () => (reads++, at < 10 ? bytes.subarray(at, (at += 3)) : undefined),
    });
  };
  for (const [start, end] of [
    [0, 10],
    [2, 3],
    [3, 9],
    [5, 20],
  ] as const) {
    const slice = sliceBody(source(), { start, end });
    expect([...new Uint8Array(await new Response(slice).arrayBuffer())]).toEqual([
      ...bytes.subarray(start, end),
    ]);
  }
  reads = 0;
  expect(await new Response(sliceBody(source(), { start: 4, end: 4 })).text()).toBe("");
  expect(reads).toBe(0);
});

test("etags: only strong ones, with or without quotes, and no other text in a header", () => {
  expect(['"a"', "a", 'W/"a"', '"W/a"', '"a', "", undefined].map(toStrongEtag)).toEqual([
    "a",
    "a",
    undefined,
    undefined,
    undefined,
    undefined,
    undefined,
  ]);
  expect(formatIfMatch("a", "test: open")).toBe('"a"');
  for (const etag of ["*", "", '"a"', "W/a", "a\r\nb: c"])
    expect(() => formatIfMatch(etag, "test: open")).toThrow(SluiceError);
});

test("a conditional publication that finds nothing is precondition_failed", async () => {
  const missing = () => Promise.reject(new SluiceError("not_found", "test: gone"));
  await expect(asPrecondition({ ifMatch: "a" }, "test: write", missing())).rejects.toMatchObject({
    code: "precondition_failed",
  });
  await expect(asPrecondition({}, "test: write", missing())).rejects.toMatchObject({
    code: "not_found",
  });
});

test("the signal of a watch aborts however the watch ends, and later errors are ignored", async () => {
  for (const end of ["abort", "close", "return"] as const) {
    let ended: AbortSignal | undefined;
    const caller = new AbortController();
    const watches = createWatches(async function* ({ signal }) {
      ended = signal;
      yield {};
      await new Promise((_, reject) => signal.addEventListener("abort", () => reject(new Error())));
    });
    const batches = watches.watch({ signal: caller.signal })[Symbol.asyncIterator]();
    await batches.next();
    const next = end === "return" ? batches.return?.() : batches.next();
    if (end === "abort") caller.abort();
    if (end === "close") watches.close();
    expect(await next).toMatchObject({ done: true });
    expect(ended?.aborted).toBe(true);
  }
});

test("each function that the page of helpers lists is exported", () => {
  const page = new URL("../../../docs/guides/storage/plugin-helpers.md", import.meta.url);
  const listed = readFileSync(page, "utf8")
    .split("\n")
    .filter((line) => line.startsWith("- `"));
  const names = listed.map((line) => line.slice(3, line.indexOf("(")));
  expect(names.length).toBeGreaterThan(20);
  expect(names.filter((name) => !(name in plugin))).toEqual([]);
});
