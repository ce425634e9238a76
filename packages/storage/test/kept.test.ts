import {
  withCache,
  createMemoryBackend,
  protect,
  wrapBackend,
  type ObjectInfo,
  type StorageBackend,
} from "@sluice/storage";
import {
  withResumedReads,
  withRetry,
  withThrottle,
  withValidation,
  withDigestCheck,
} from "@sluice/storage/internal";
import { withKept, type KeptObject } from "@sluice/storage/plugin";
import { expect, test } from "vitest";

const bytes = new TextEncoder().encode("content");

function keeping(info: Partial<ObjectInfo> = {}): StorageBackend & { readonly kept: KeptObject } {
  const kept = { info: { key: "a", size: 7, etag: "v1", ...info }, bytes };
  const store = createMemoryBackend({ a: "content" });
  return {
    name: "keeping",
    describe: (key, options) => store.describe(key, options),
    list: (options) => store.list(options),
    open: withKept(
      (key, options) => store.open(key, options),
      (key) => (key === "a" ? kept : undefined),
    ),
    kept,
  };
}

test.each(
  Object.entries({
    withValidation,
    withThrottle,
    withRetry,
    withResumedReads,
    withDigestCheck,
    protect,
  }),
)("an object in memory is found through %s", (_name, wrapper) => {
  const backend = keeping();
  const find = wrapper(backend).open.inMemory!;
  expect(find("a")).toBe(backend.kept);
  expect(find("b")).toBeUndefined();
});

test.each<[string, (backend: StorageBackend) => StorageBackend]>([
  [
    "an object with its own `open`",
    (backend) => ({ ...backend, open: backend.open.bind(backend) }),
  ],
  [
    "`wrap`",
    (backend) => wrapBackend(backend, { open: (open) => (key, options) => open(key, options) }),
  ],
  ["a cache", (backend) => withCache(backend)],
])("%s in front is never passed by", (_what, front) => {
  expect(front(keeping()).open.inMemory).toBeUndefined();
  expect(protect(front(keeping())).open.inMemory).toBeUndefined();
});

test("a wrapper of another operation leaves it, and a backend without it stays without", () => {
  const backend = keeping();
  const described = wrapBackend(backend, { describe: (describe) => (key) => describe(key) });
  expect({ ...described }.open.inMemory!("a")).toBe(backend.kept);
  expect(protect(createMemoryBackend({ a: "content" })).open.inMemory).toBeUndefined();
});

test("an illegal key is left to `open`, which refuses it before the backend sees it", () => {
  const asked: string[] = [];
  const { kept, ...backend } = keeping();
  const open = withKept(backend.open.bind(backend), (key) => (asked.push(key), kept));
  const find = withValidation({ ...backend, open }).open.inMemory!;
  for (const key of ["", "../a", "a//b", "a\\b", "a\n", "\ud800", "a".repeat(1_025)])
    expect(find(key)).toBeUndefined();
  expect([find("a"), asked]).toEqual([kept, ["a"]]);
});

test("an object with a digest is left to `open`, which compares it", () => {
  const backend = keeping({ digests: { sha256: "00" } });
  expect(withDigestCheck(backend).open.inMemory!("a")).toBeUndefined();
  expect(protect(backend).open.inMemory!("a")).toBeUndefined();
});

test("an object of a wrong length is left to `open`, which refuses it", () => {
  const backend = keeping({ size: 8 });
  expect(withValidation(backend).open.inMemory!("a")).toBeUndefined();
  expect(protect(backend).open.inMemory!("a")).toBeUndefined();
});
