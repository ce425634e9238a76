import { SluiceError } from "@sluice/core";
import type { UploadStore } from "@sluice/state";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { wrapBackend } from "@sluice/storage";
import type { UploadLimits } from "@sluice/uploads";
import { expect, onTestFinished, test, vi } from "vitest";
import { QuotaTracker } from "../src/limits/quota-tracker.ts";
import { alice, bearer, noise, startUploadServer } from "./upload-server.ts";

const put = (url: string, body: Uint8Array<ArrayBuffer>): Promise<Response> =>
  fetch(url, { method: "PUT", headers: bearer("alice"), body });

test(
  "80 uploads at once never exceed the quota, and the rest leave nothing",
  { tags: "slow" },
  async () => {
    const limits = {
      requests: { perPrincipal: 80 },
      fileBytes: { perPrincipal: 200_000 },
      files: { perPrincipal: 1_000 },
    };
    const server = await startUploadServer({ uploads: { limits } });
    const answers = await Promise.all(
      Array.from({ length: 80 }, async () => put((await server.slot()).url, noise(10_000))),
    );
    const statuses = answers.map(({ status }) => status);
    expect(new Set(statuses)).toEqual(new Set([201, 507]));
    expect(statuses.filter((status) => status === 201)).toHaveLength(20);
    // bytes and record of each
    expect(await server.files()).toHaveLength(40);
  },
);

test("four of many concurrent uploads of one user are read, and permits come back", async () => {
  const server = await startUploadServer({
    uploads: { scan: () => scanning.then(() => "clean") },
  });
  let finishScan = (): void => {};
  const scanning = new Promise<void>((resolve) => void (finishScan = resolve));
  const sent = Array.from({ length: 4 }, async () => put((await server.slot()).url, noise(100)));
  await expect.poll(() => server.files()).toHaveLength(4);
  const fifth = await put((await server.slot()).url, noise(100));
  expect([fifth.status, fifth.headers.get("retry-after")]).toEqual([429, "1"]);
  finishScan();
  expect((await Promise.all(sent)).map(({ status }) => status)).toEqual([201, 201, 201, 201]);
  expect((await put((await server.slot()).url, noise(100))).status).toBe(201);
});

test("16 requests of one user that wait for a file are served, and those of others continue", async () => {
  const store = createMemoryUploadStore();
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => void (letGo = resolve));
  let isStuck = false;
  let asking = 0;
  const server = await startUploadServer({
    uploads: {
      stores: {
        uploads: {
          ...store,
          async claim(fileId, lease) {
            if (isStuck) await gate;
            return store.claim(fileId, lease);
          },
          async enter(owner, ...rest) {
            const hasPlace = await store.enter(owner, ...rest);
            if (isStuck && hasPlace) asking += 1;
            return hasPlace;
          },
        },
      },
    },
  });
  const begin = async (name: string): Promise<string> => {
    const slot = await server.uploads.reserve(
      { ...alice, subject: name },
      { accept: [], maxBytes: 1_000, maxFiles: 1 },
    );
    const headers = { ...bearer(name), "upload-complete": "?0" };
    const answer = await fetch(slot.url, { method: "POST", headers });
    return answer.headers.get("location")!;
  };
  const look = (name: string, location: string): Promise<Response> =>
    fetch(location, { method: "HEAD", headers: bearer(name) });
  const files = await Promise.all(Array.from({ length: 4 }, () => begin("alice")));
  const other = await begin("bob");
  isStuck = true;
  const sent = Array.from({ length: 16 }, (_, n) => look("alice", files[n % 4]!));
  await expect.poll(() => asking).toBe(16);
  const over = await look("alice", files[0]!);
  expect([over.status, over.headers.get("retry-after")]).toEqual([429, "1"]);
  isStuck = false;
  expect((await look("bob", other)).status).toBe(204);
  letGo();
  const statuses = (await Promise.all(sent)).map(({ status }) => status);
  expect(statuses.filter((status) => status === 429)).toEqual([]);
  expect((await look("alice", files[0]!)).status).toBe(204);
});

test("the requests of a user count with all others of that user", async () => {
  const counted: string[] = [];
  const perPrincipal = {
    async consume(key: string) {
      counted.push(key);
      if (counted.length > 2) throw Object.assign(new Error("too many"), { msBeforeNext: 4_200 });
    },
  };
  const server = await startUploadServer({ sluice: { rates: { requests: { perPrincipal } } } });
  expect((await put((await server.slot()).url, noise(10))).status).toBe(201);
  expect((await put((await server.slot()).url, noise(10))).status).toBe(201);
  const third = await put((await server.slot()).url, noise(10));
  expect([third.status, third.headers.get("retry-after")]).toEqual([429, "5"]);
  expect(new Set(counted)).toEqual(new Set([server.records[0]!.principal]));
});

test("a file that was left counts as what came of it, and as a whole again when it goes on", async () => {
  const server = await startUploadServer({
    uploads: { limits: { fileBytes: { perPrincipal: 150 }, files: { perPrincipal: 2 } } },
  });
  const headers = { ...bearer("alice"), "upload-complete": "?0", "upload-length": "100" };
  const begun = await fetch((await server.slot()).url, {
    method: "POST",
    headers,
    body: noise(10),
  });
  expect((await put((await server.slot()).url, noise(60))).status).toBe(507);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 10_000);
  await server.uploads.sweep().finally(() => vi.restoreAllMocks());
  expect((await put((await server.slot()).url, noise(60))).status).toBe(201);
  const goOn = await fetch(begun.headers.get("location")!, {
    method: "PATCH",
    headers: {
      ...bearer("alice"),
      "content-type": "application/partial-upload",
      "upload-offset": "10",
      "upload-complete": "?1",
    },
    body: noise(90),
  });
  expect(goOn.status).toBe(507);
});

test("the last file of a quota may come in a form", async () => {
  const server = await startUploadServer({
    uploads: { limits: { files: { perPrincipal: 1 }, fileBytes: { perPrincipal: 1_000 } } },
  });
  const post = async (bytes: Uint8Array<ArrayBuffer>): Promise<Response> => {
    const body = new FormData();
    body.append("file", new Blob([bytes]), "a.bin");
    return fetch((await server.slot()).url, { method: "POST", headers: bearer("alice"), body });
  };
  expect((await post(noise(100))).status).toBe(201);
  expect((await post(noise(100))).status).toBe(507);
  expect(await server.files()).toHaveLength(2);
});

test("a quota tracker counts what is under way and what storage shows, and prolongs what is under way", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const errors: unknown[] = [];
  const make = (store: UploadStore, limits: UploadLimits) =>
    new QuotaTracker({
      store,
      limits,
      seedEveryMs: 60_000,
      onError: (error) => errors.push(error),
    });
  const store = createMemoryUploadStore();
  const tracker = make(store, {
    requests: { perPrincipal: 1 },
    files: { perPrincipal: 3 },
    fileBytes: { perPrincipal: 100 },
  });
  // a process of the same store that died: what it held is not renewed
  const lease = { now: Date.now(), until: Date.now() + 60_000 };
  await store.enter("a", "dead", { ...lease, permits: 1 });
  await store.hold("a", "dead", { ...lease, bytes: 90, maxFiles: 3, maxBytes: 100 });
  await expect(tracker.enter("a")).rejects.toMatchObject({ code: "throttled" });
  await expect(tracker.hold("a", "1", 11)).rejects.toMatchObject({ code: "no_space" });
  await vi.advanceTimersByTimeAsync(60_000);
  const leave = await tracker.enter("a");
  await tracker.hold("a", "1", 100);
  // and the living do
  await vi.advanceTimersByTimeAsync(300_000);
  await expect(tracker.enter("a")).rejects.toThrow(/at the same time/);
  await expect(tracker.hold("a", "2", 1)).rejects.toThrow(/at most 3 files and 100 bytes/);
  await tracker.settle("a", "1", 40);
  await tracker.seed([{ owner: "a", fileId: "9", bytes: 50 }], Date.now());
  await expect(tracker.hold("a", "2", 11)).rejects.toMatchObject({ code: "no_space" });
  await tracker.hold("a", "2", 10);
  await vi.advanceTimersByTimeAsync(60_000);
  await tracker.seed([{ owner: "a", fileId: "9", bytes: 50 }], Date.now());
  await tracker.hold("a", "3", 40);
  for (const fileId of ["2", "3"]) await tracker.drop("a", fileId);
  await leave();
  await leave();
  await (
    await tracker.enter("a")
  )();
  // storage showed it until it was removed behind our back, or while the store did not hear of it
  await tracker.hold("a", "4", 50);
  await tracker.settle("a", "4", 50);
  await vi.advanceTimersByTimeAsync(60_000);
  await expect(tracker.hold("a", "5", 100)).rejects.toMatchObject({ code: "no_space" });
  await tracker.seed([], Date.now());
  await tracker.hold("a", "5", 100);
  await tracker.drop("a", "5");
  expect(vi.getTimerCount()).toBe(0);
  expect(errors).toEqual([]);
  for (const name of ["files", "fileBytes", "requests"])
    for (const perPrincipal of [0, -1, 1.5])
      expect(() => make(store, { [name]: { perPrincipal } })).toThrow(RangeError);
});

test("an expired slot is not prolonged by a late call", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const store = createMemoryUploadStore();
  const calls: string[] = [];
  const slow = (name: "enter" | "hold") => async (): Promise<boolean> => {
    await new Promise((resolve) => setTimeout(resolve, 1_000));
    calls.push(name);
    return true;
  };
  const told = (name: string) => async (): Promise<void> => void calls.push(name);
  const tracker = new QuotaTracker({
    store: {
      ...store,
      enter: slow("enter"),
      hold: slow("hold"),
      leave: told("leave"),
      settle: told("settle"),
    },
    seedEveryMs: 60_000,
    onError: () => {},
  });
  const entering = tracker.enter("a");
  const holding = tracker.hold("a", "1", 10);
  await vi.advanceTimersByTimeAsync(1_000);
  await holding;
  const leave = await entering;
  await vi.advanceTimersByTimeAsync(5_500);
  const over = Promise.all([tracker.settle("a", "1", 10), leave()]);
  await vi.advanceTimersByTimeAsync(1_000);
  await over;
  const of = (...names: string[]): string[] => calls.filter((name) => names.includes(name));
  expect(of("enter", "leave")).toEqual(["enter", "enter", "leave"]);
  expect(of("hold", "settle")).toEqual(["hold", "hold", "settle"]);
});

test("16 requests of one user for the offset of a slot are served, and those of others continue", async () => {
  let letGo = (): void => {};
  const gate = new Promise<void>((resolve) => void (letGo = resolve));
  let looking = 0;
  const server = await startUploadServer({
    wrap: (backend) =>
      wrapBackend(backend, {
        list: (list) => async (options) => {
          if (options?.prefix?.includes(slot.uploadId)) {
            looking += 1;
            await gate;
          }
          return list(options);
        },
      }),
  });
  const slot = await server.slot();
  const look = (url: string, name: string): Promise<Response> =>
    fetch(url, { headers: bearer(name) });
  const asked = Array.from({ length: 16 }, () => look(slot.url, "alice"));
  await expect.poll(() => looking).toBe(16);
  const over = await look(slot.url, "alice");
  expect([over.status, over.headers.get("retry-after")]).toEqual([429, "1"]);
  const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };
  const other = await server.uploads.reserve({ ...alice, subject: "bob" }, terms);
  expect((await look(other.url, "bob")).status).toBe(200);
  letGo();
  expect((await Promise.all(asked)).map(({ status }) => status)).toEqual(Array(16).fill(200));
});

test("uploads are refused for a while if the store is down, and nothing of them is kept", async () => {
  const store = createMemoryUploadStore();
  let isDown = true;
  const unavailable = new SluiceError("unavailable", "store: down", { retryAfterMs: 1_000 });
  const frail = new Proxy(store, {
    get: (target, name) =>
      isDown ? async () => Promise.reject(unavailable) : Reflect.get(target, name),
  });
  const server = await startUploadServer({ uploads: { stores: { uploads: frail } } });
  const { url } = await server.slot();
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  for (const init of [
    { method: "PUT", headers: bearer("alice") },
    { method: "POST", headers },
  ]) {
    const answer = await fetch(url, { ...init, body: noise(100) });
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
  }
  expect(await server.files()).toEqual([]);
  isDown = false;
  expect((await put(url, noise(100))).status).toBe(201);
});

test("a form that has come is kept also where the store is down then", async () => {
  const store = createMemoryUploadStore();
  let isDown = false;
  const frail = new Proxy(store, {
    get: (target, name) =>
      isDown
        ? async () => Promise.reject(new SluiceError("unavailable", "store: down"))
        : Reflect.get(target, name),
  });
  const server = await startUploadServer({
    uploads: { stores: { uploads: frail } },
    wrap: (backend) =>
      wrapBackend(backend, {
        write: (write) => (key, options) => {
          isDown = true;
          return write(key, options);
        },
      }),
  });
  const { url, uploadId } = await server.slot({ maxFiles: 2 });
  const body = new FormData();
  for (const name of ["a.bin", "b.bin"]) body.append("file", new Blob([noise(100)]), name);
  const init = { method: "POST", headers: bearer("alice"), body };
  expect((await fetch(url, init)).status).toBe(201);
  expect(await server.uploads.received(alice, uploadId)).toHaveLength(2);
  expect(server.errors.length).toBeGreaterThan(0);
});

test("a file that cannot be removed after it was refused counts, and is no longer held", async () => {
  const settled: number[] = [];
  const store = createMemoryUploadStore();
  const server = await startUploadServer({
    uploads: {
      stores: {
        uploads: {
          ...store,
          settle(owner, fileId, file) {
            settled.push(file.bytes);
            return store.settle(owner, fileId, file);
          },
        },
      },
    },
    wrap: (backend) =>
      wrapBackend(backend, { remove: () => async () => Promise.reject(new Error("io")) }),
  });
  const headers = { ...bearer("alice"), "upload-complete": "?1", "upload-length": "100" };
  const digest = { "repr-digest": `sha-256=:${Buffer.alloc(32).toString("base64")}:` };
  const init = { method: "POST", headers: { ...headers, ...digest }, body: noise(100) };
  expect((await fetch((await server.slot()).url, init)).status).toBe(422);
  // as it was left
  expect(settled).toEqual([100]);
});
