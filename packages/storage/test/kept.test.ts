import {
  cached,
  createMemoryBackend,
  protect,
  resumable,
  retry,
  throttle,
  validate,
  verifyDigest,
  wrap,
  type ObjectInfo,
  type StorageBackend,
} from "@sluice/storage";
import { describedBehind, keptBehind, withKept, type KeptObject } from "@sluice/storage/plugin";
import { expect, test } from "vitest";

const bytes = new TextEncoder().encode("content");

function keeping(info: Partial<ObjectInfo> = {}): StorageBackend & { readonly kept: KeptObject } {
  const kept = { info: { key: "a", size: 7, etag: "v1", ...info }, bytes };
  const store = createMemoryBackend({ a: "content" });
  return {
    name: "keeping",
    describe: withKept(
      (key, options) => store.describe(key, options),
      (key) => (key === "a" ? kept : undefined),
    ),
    list: (options) => store.list(options),
    open: withKept(
      (key, options) => store.open(key, options),
      (key) => (key === "a" ? kept : undefined),
    ),
    kept,
  };
}

test.each(Object.entries({ validate, throttle, retry, resumable, verifyDigest, protect }))(
  "an object in memory is found through %s",
  (_name, wrapper) => {
    const backend = keeping();
    const find = keptBehind(wrapper(backend))!;
    expect(find("a")).toBe(backend.kept);
    expect(find("b")).toBeUndefined();
    const described = describedBehind(wrapper(backend))!;
    expect([described("a"), described("b")]).toEqual([backend.kept, undefined]);
  },
);

test.each<[string, (backend: StorageBackend) => StorageBackend]>([
  [
    "an object with its own `open`",
    (backend) => ({ ...backend, open: backend.open.bind(backend) }),
  ],
  ["`wrap`", (backend) => wrap(backend, { open: (open) => (key, options) => open(key, options) })],
  ["a cache", (backend) => cached(backend)],
])("%s in front is never passed by", (_what, front) => {
  expect(keptBehind(front(keeping()))).toBeUndefined();
  expect(keptBehind(protect(front(keeping())))).toBeUndefined();
});

test("a wrapper of another operation leaves it, and a backend without it stays without", () => {
  const backend = keeping();
  const described = wrap(backend, { describe: (describe) => (key) => describe(key) });
  expect(keptBehind({ ...described })!("a")).toBe(backend.kept);
  expect(describedBehind(protect(described))).toBeUndefined();
  const opened = wrap(backend, { open: (open) => (key) => open(key) });
  expect(describedBehind(opened)!("a")).toBe(backend.kept);
  expect(keptBehind(protect(createMemoryBackend({ a: "content" })))).toBeUndefined();
});

test("an illegal key is left to `open`, which refuses it before the backend sees it", () => {
  const asked: string[] = [];
  const { kept, ...backend } = keeping();
  const open = withKept(backend.open.bind(backend), (key) => (asked.push(key), kept));
  const find = keptBehind(validate({ ...backend, open }))!;
  for (const key of ["", "../a", "a//b", "a\\b", "a\n", "\ud800", "a".repeat(1_025)])
    expect(find(key)).toBeUndefined();
  expect([find("a"), asked]).toEqual([kept, ["a"]]);
  const describe = withKept(backend.describe.bind(backend), () => kept);
  const described = describedBehind(validate({ ...backend, describe }))!;
  expect([described("a"), described("../a")]).toEqual([kept, undefined]);
});

test("an object with a digest is left to `open`, which compares it", () => {
  const backend = keeping({ digests: { sha256: "00" } });
  expect(keptBehind(verifyDigest(backend))!("a")).toBeUndefined();
  expect(keptBehind(protect(backend))!("a")).toBeUndefined();
});

test("a cache in front describes what it keeps itself", () => {
  expect(describedBehind(cached(keeping()))).toBeUndefined();
});

test("an object of a wrong length is left to `open`, which refuses it", () => {
  const backend = keeping({ size: 8 });
  expect(keptBehind(validate(backend))!("a")).toBeUndefined();
  expect(keptBehind(protect(backend))!("a")).toBeUndefined();
});
