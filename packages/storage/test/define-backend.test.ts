import {
  type BackendDefinition,
  createBytesBody,
  defineBackend,
  type StorageBackend,
  type WritableBackend,
} from "@sluice/storage/plugin";
import { describe, expect, expectTypeOf, test } from "vitest";

const info = { key: "a", size: 1, etag: "1" };

/** Operations that record what they are called with. */
function recorded() {
  const calls: unknown[][] = [];
  const writer = { write: async () => {}, commit: async () => info, abort: async () => {} };
  const definition = {
    name: "test",
    describe: (...call: unknown[]) => (calls.push(call), info),
    open: (...call: unknown[]) => (
      calls.push(call),
      { info, body: createBytesBody(new Uint8Array(1), undefined) }
    ),
    list: (...call: unknown[]) => (calls.push(call), { objects: [info] }),
    write: (...call: unknown[]) => (
      calls.push(call),
      { ...writer, [Symbol.asyncDispose]: writer.abort }
    ),
    remove: (...call: unknown[]) => void calls.push(call),
    freeBytes: (...call: unknown[]) => (calls.push(call), 1),
  } satisfies BackendDefinition;
  return { calls, definition };
}

/** The operations that every backend has. */
function readable() {
  const { name, describe: look, open, list } = recorded().definition;
  return { name, describe: look, open, list };
}

test("an operation gets the caller's options and the start of its messages", async () => {
  const { calls, definition } = recorded();
  const backend = defineBackend(definition);
  const { signal } = new AbortController();
  await backend.describe("a", { signal });
  await backend.open("a", { range: { start: 0 }, ifMatch: "1" });
  await backend.list();
  await backend.remove("a");
  expect(calls).toEqual([
    ["a", { signal, operation: 'test: describe "a"' }],
    ["a", { range: { start: 0 }, ifMatch: "1", operation: 'test: open "a"' }],
    [{ operation: "test: list" }],
    ["a", { operation: 'test: remove "a"' }],
  ]);
});

describe("no operation gets", () => {
  const wrongCalls: readonly [string, (backend: WritableBackend) => Promise<unknown>][] = [
    ["an illegal key to describe", (backend) => backend.describe("..")],
    ["an illegal key to open", (backend) => backend.open("a//b")],
    ["a range that ends before it begins", (b) => b.open("a", { range: { start: 2, end: 1 } })],
    ["an illegal key to write", (backend) => backend.write("")],
    ["an illegal key to remove", (backend) => backend.remove("a\\b")],
  ];
  test.each(wrongCalls)("%s", async (_, call) => {
    const { calls, definition } = recorded();
    await expect(call(defineBackend(definition))).rejects.toMatchObject({
      code: "invalid_argument",
    });
    expect(calls).toEqual([]);
  });

  test("a call that is aborted already", async () => {
    const { calls, definition } = recorded();
    const reason = new Error("the caller's reason");
    const options = { signal: AbortSignal.abort(reason) };
    const backend = defineBackend(definition);
    for (const call of [
      backend.describe("a", options),
      backend.open("a", options),
      backend.list(options),
      backend.write("a", options),
      backend.remove("a", options),
      backend.freeBytes(options),
    ])
      await expect(call).rejects.toBe(reason);
    expect(calls).toEqual([]);
  });
});

test("an error that an operation throws is a rejection", async () => {
  const fault = new Error("thrown");
  const backend = defineBackend({
    ...readable(),
    describe() {
      throw fault;
    },
  });
  await expect(backend.describe("a")).rejects.toBe(fault);
});

test("operations that are not given are absent, even in the type", () => {
  const backend = defineBackend({ ...readable(), presign: undefined });
  expect(Object.keys(backend)).toEqual(["name", "describe", "open", "list"]);
  expectTypeOf(backend).toExtend<StorageBackend>();
  expectTypeOf(backend).not.toExtend<WritableBackend>();
  expectTypeOf<(typeof backend)["presign"]>().toEqualTypeOf<StorageBackend["presign"]>();
  const writable = defineBackend(recorded().definition);
  expectTypeOf(writable).toExtend<WritableBackend>();
});

test("an object in memory stays to be found without a call", () => {
  const found = { info, bytes: new Uint8Array(1) };
  const open = Object.assign(readable().open, { inMemory: () => found });
  expect(defineBackend({ ...readable(), open }).open.inMemory?.("a")).toBe(found);
});

test.each([
  [{ ...readable(), presing: () => undefined }, /no option presing; did you mean presign\?/],
  [{ ...readable(), name: "" }, /name must be a short name/],
  [{ ...readable(), list: undefined }, /list must be a function/],
])("a definition that cannot work throws at once", (definition, message) => {
  expect(() => defineBackend(definition as unknown as BackendDefinition)).toThrow(TypeError);
  expect(() => defineBackend(definition as unknown as BackendDefinition)).toThrow(message);
});
