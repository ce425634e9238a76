import { equal } from "node:assert/strict";
import { SluiceError } from "@sluice/core";
import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { afterEach, beforeEach, expect, test, vi } from "vitest";
import { WriteLock, type LockLease } from "../src/limits/write-lock.ts";

const errors: unknown[] = [];
const never = new AbortController().signal;
const down = new SluiceError("unavailable", "store: down", { retryAfterMs: 1_000 });

beforeEach(() => void vi.useFakeTimers());
afterEach(() => {
  const timers = vi.getTimerCount();
  vi.useRealTimers();
  errors.length = 0;
  equal(timers, 0, "a lease that is over leaves no timer");
});

/** The lock of one process. */
const processOf = (store: UploadStore) => new WriteLock(store, (error) => errors.push(error));

/** Waits for a lease, and says whether it has come. */
function taking(lease: Promise<LockLease>): {
  readonly lease: Promise<LockLease>;
  isOurs: boolean;
} {
  const state = { lease, isOurs: false };
  lease.then(
    () => (state.isOurs = true),
    () => {},
  );
  return state;
}

test("a request in another process gets the file when the older one has kept what came", async () => {
  const store = createMemoryUploadStore();
  const old = await processOf(store).acquire("a", never);
  const next = taking(processOf(store).acquire("a", never));
  await vi.advanceTimersByTimeAsync(499);
  expect(old.signal.aborted).toBe(false);
  await vi.advanceTimersByTimeAsync(1);
  expect(old.signal.reason).toMatchObject({ code: "interrupted" });
  await vi.advanceTimersByTimeAsync(5_000);
  // it takes its time to keep what came
  expect(next.isOurs).toBe(false);
  old.ensureOurs();
  await old.release();
  await vi.advanceTimersByTimeAsync(100);
  expect(next.isOurs).toBe(true);
  await (await next.lease).release();
});

test("a writer that hangs keeps a file for ten seconds, and writes nothing after that", async () => {
  const store = createMemoryUploadStore();
  const frozen = { ...store, renew: () => new Promise<never>(() => {}) };
  const old = await processOf(frozen).acquire("a", never);
  const next = taking(processOf(store).acquire("a", never));
  await vi.advanceTimersByTimeAsync(9_900);
  old.ensureOurs();
  expect(next.isOurs).toBe(false);
  await vi.advanceTimersByTimeAsync(100);
  expect(next.isOurs).toBe(true);
  expect(() => old.ensureOurs()).toThrow(/a newer request has this file/);
  await old.release();
  (await next.lease).ensureOurs();
  await (await next.lease).release();
});

test("a writer that was replaced learns it, however late it asks", async () => {
  const store = createMemoryUploadStore();
  let isAsleep = true;
  const sleeping: UploadStore = {
    ...store,
    renew: async (fileId, writer, lease) =>
      isAsleep ? Promise.reject(new Error("asleep")) : store.renew(fileId, writer, lease),
  };
  const old = await processOf(sleeping).acquire("a", never);
  const next = taking(processOf(store).acquire("a", never));
  await vi.advanceTimersByTimeAsync(11_000);
  isAsleep = false;
  await vi.advanceTimersByTimeAsync(1_000);
  expect(() => old.ensureOurs()).toThrow(/a newer request has this file/);
  await old.release();
  expect(next.isOurs).toBe(true);
  await (await next.lease).release();
});

test("a writer stops in time to keep the received bytes if the store is down, and a short outage does no harm", async () => {
  const store = createMemoryUploadStore();
  let isDown = true;
  const frail: UploadStore = {
    ...store,
    renew: async (...asked) => (isDown ? Promise.reject(down) : store.renew(...asked)),
  };
  const lease = await processOf(frail).acquire("a", never);
  await vi.advanceTimersByTimeAsync(5_500);
  isDown = false;
  await vi.advanceTimersByTimeAsync(10_000);
  expect(lease.signal.aborted).toBe(false);
  lease.ensureOurs();
  isDown = true;
  await vi.advanceTimersByTimeAsync(6_500);
  expect(lease.signal.reason).toBe(down);
  lease.ensureOurs();
  expect(errors).toContain(down);
  await lease.release();
});

test("a store that forgets everything stops no request, and one that comes then waits until the older one is through", async () => {
  let store = createMemoryUploadStore();
  const shared: UploadStore = {
    ...store,
    claim: (...asked) => store.claim(...asked),
    renew: (...asked) => store.renew(...asked),
    release: (...asked) => store.release(...asked),
  };
  const old = await processOf(shared).acquire("a", never);
  store = createMemoryUploadStore();
  await vi.advanceTimersByTimeAsync(20_000);
  expect(old.signal.aborted).toBe(false);
  old.ensureOurs();
  const next = taking(processOf(shared).acquire("a", never));
  await vi.advanceTimersByTimeAsync(500);
  expect(old.signal.reason).toMatchObject({ code: "interrupted" });
  old.ensureOurs();
  expect(next.isOurs).toBe(false);
  await old.release();
  await vi.advanceTimersByTimeAsync(100);
  expect(next.isOurs).toBe(true);
  await (await next.lease).release();
});

test("a wait for a request of this process that does not end expires, or ends with its own reason", async () => {
  const lock = processOf(createMemoryUploadStore());
  const old = await lock.acquire("a", never);
  const gone = new AbortController();
  const leaving = lock.acquire("a", gone.signal);
  gone.abort(new Error("gone"));
  await expect(leaving).rejects.toThrow("gone");
  const waiting = lock.acquire("a", never).catch((error: unknown) => error);
  await vi.advanceTimersByTimeAsync(10_000);
  expect(await waiting).toMatchObject({ code: "unavailable" });
  await old.release();
  await (await lock.acquire("a", never)).release();
});

test("the newest of many requests in several processes gets the file, and the others end", async () => {
  const store = createMemoryUploadStore();
  const processes = [1, 2, 3].map(() => processOf(store));
  const old = await processes[0]!.acquire("a", never);
  old.signal.addEventListener("abort", () => void old.release());
  const taken = Array.from({ length: 9 }, (_, n) => processes[n % 3]!.acquire("a", never));
  const outcomes = Promise.allSettled(
    taken.map(async (coming) => {
      const lease = await coming;
      if (!lease.signal.aborted)
        await new Promise((resolve) => lease.signal.addEventListener("abort", resolve));
      await lease.release();
    }),
  );
  await vi.advanceTimersByTimeAsync(5_000);
  const last = processes[1]!.acquire("a", never);
  await vi.advanceTimersByTimeAsync(5_000);
  const lease = await last;
  expect(lease.signal.aborted).toBe(false);
  lease.ensureOurs();
  await lease.release();
  const refused = (await outcomes).flatMap((outcome) =>
    outcome.status === "rejected" ? [outcome.reason.code] : [],
  );
  expect(new Set(refused)).toEqual(new Set(["interrupted"]));
});

test("a request that gives up waiting leaves the file to others, with its own reason", async () => {
  const store = createMemoryUploadStore();
  const old = await processOf(store).acquire("a", never);
  const gone = new AbortController();
  const waiting = processOf(store).acquire("a", gone.signal);
  gone.abort(new Error("gone"));
  await expect(waiting).rejects.toThrow("gone");
  await old.release();
  const next = await processOf(store).acquire("a", never);
  next.ensureOurs();
  await next.release();
});

test("without an answer of the store no request gets a lease", async () => {
  const store = { ...createMemoryUploadStore(), claim: () => Promise.reject(down) };
  const lock = processOf(store);
  for (let n = 0; n < 2; n++) await expect(lock.acquire("a", never)).rejects.toBe(down);
});
