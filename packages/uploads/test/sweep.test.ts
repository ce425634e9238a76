import { copyFile, mkdir, utimes } from "node:fs/promises";
import { basename, dirname } from "node:path";
import { createMemoryUploadStore } from "@sluice/state/internal";
import { wrapBackend, type ObjectInfo } from "@sluice/storage";
import { describe, expect, test, vi } from "vitest";
import {
  folderOf,
  partKey,
  planKey,
  parseObject,
  recordKey,
  stepKey,
} from "../src/store/layout.ts";
import { stateOf } from "../src/store/upload-state.ts";
import {
  alice,
  bearer,
  noise,
  startUploadServer,
  storageKinds,
  type UploadServer,
} from "./upload-server.ts";

const claim = { name: "n", size: 100, mimeType: "application/octet-stream" };
const minute = 60_000;

async function sent(server: UploadServer, ttlMs: number): Promise<string> {
  const terms = { accept: [], maxBytes: 1_000, maxFiles: 2 };
  const { url, uploadId } = await server.uploads.reserve(alice, terms, { ttlMs });
  const init = { method: "PUT", headers: bearer("alice"), body: noise(100) };
  expect((await fetch(url, init)).status).toBe(201);
  const headers = { ...bearer("alice"), "upload-complete": "?0" };
  expect((await fetch(url, { method: "POST", headers, body: noise(10) })).status).toBe(201);
  return uploadId;
}

async function sweepAt(server: UploadServer, afterMs: number): Promise<void> {
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + afterMs);
  await server.uploads.sweep().finally(() => vi.restoreAllMocks());
}

describe.each(storageKinds)("over $kind", ({ begunObjects, start }) => {
  // a file with its record, and one that was begun
  const all = 2 + begunObjects;

  test("an unconfirmed file goes five minutes after the end of its slot, and not before", async () => {
    const server = await start();
    await sent(server, 2 * minute);
    const before = await server.files();
    expect(before).toHaveLength(all);
    await sweepAt(server, 6.5 * minute);
    expect(await server.files()).toEqual(before);
    await sweepAt(server, 7.5 * minute);
    expect(await server.files()).toEqual([]);
  });

  test("confirmed files stay for as long as they are wanted, and what was beside them goes", async () => {
    const server = await start();
    const uploadId = await sent(server, 2 * minute);
    const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
    await sweepAt(server, 8 * minute);
    // bytes, record and marker
    expect(await server.files()).toHaveLength(3);
    expect((await file!.open()).info.size).toBe(100);
    await file!.remove();
    await sweepAt(server, 8 * minute);
    expect(await server.files()).toEqual([]);
  });

  test("an upload that was confirmed too late is refused", async () => {
    const server = await start();
    const uploadId = await sent(server, 2 * minute);
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + 8 * minute);
    const late = server.uploads
      .confirm(alice, uploadId, [claim])
      .finally(() => vi.restoreAllMocks());
    await expect(late).rejects.toMatchObject({ code: "expired" });
  });

  test(
    "a transfer that began in time and ended late is kept, and can be confirmed for as long as others",
    { tags: "slow" },
    async () => {
      const server = await start();
      const [early, late] = [await sent(server, 2 * minute), await sent(server, 2 * minute)];
      const lastByteAt = new Date(Date.now() + 10 * minute);
      for (const path of await server.files())
        if (path.includes(late)) await utimes(path, lastByteAt, lastByteAt);
      await sweepAt(server, 14 * minute);
      const left = await server.files();
      expect(left.filter((path) => path.includes(early))).toEqual([]);
      expect(left).toHaveLength(all);
      vi.spyOn(Date, "now").mockReturnValue(Date.now() + 14 * minute);
      const confirming = server.uploads.confirm(alice, late, [claim]);
      expect(await confirming.finally(() => vi.restoreAllMocks())).toMatchObject([{ size: 100 }]);
      const other = await sent(server, 2 * minute);
      for (const path of await server.files())
        if (path.includes(other)) await utimes(path, lastByteAt, lastByteAt);
      await sweepAt(server, 16 * minute);
      expect((await server.files()).filter((path) => path.includes(other))).toEqual([]);
    },
  );

  test("an unconfirmed file that is removed leaves a record, for any cause", async () => {
    const server = await start();
    const discards = (): unknown[] =>
      server.records
        .filter(({ step }) => step === "discard")
        .map(({ outcome, grant, principal, reason }) => [outcome, grant, principal, reason]);
    const uploadId = await sent(server, 2 * minute);
    const { principal } = server.records.find(({ step }) => step === "receive")!;
    await server.uploads.discard(uploadId);
    await server.uploads.discard(uploadId);
    await server.uploads.discard("x".repeat(32));
    expect(discards()).toEqual([["complete", uploadId, principal, undefined]]);
    const swept = await sent(server, 2 * minute);
    await sweepAt(server, 8 * minute);
    expect(discards().at(-1)).toEqual(["complete", swept, principal, undefined]);

    const slot = await server.slot();
    const headers = { ...bearer("alice"), "upload-complete": "?0" };
    const begun = await fetch(slot.url, { method: "POST", headers });
    const location = begun.headers.get("location")!;
    for (const user of ["bob", "alice"])
      await fetch(location, { method: "DELETE", headers: bearer(user) });
    expect(discards().slice(-2)).toEqual([
      // the owner did not ask for it
      ["denied", slot.uploadId, undefined, "not_found"],
      ["complete", slot.uploadId, principal, undefined],
    ]);
  });

  test("an upload whose time ends while it is looked into is swept, and never half confirmed", async () => {
    let isLate = false;
    const server = await start({
      uploads: {
        async scan() {
          if (!isLate) return "defer";
          vi.spyOn(Date, "now").mockReturnValue(Date.now() + 8 * minute);
          return "clean";
        },
      },
    });
    const uploadId = await sent(server, 2 * minute);
    isLate = true;
    const confirming = server.uploads.confirm(alice, uploadId, [claim]);
    await expect(confirming).rejects.toMatchObject({ code: "expired" });
    await server.uploads.sweep().finally(() => vi.restoreAllMocks());
    expect(await server.files()).toEqual([]);
  });

  test("a file that arrives while a sweep reads elsewhere is kept", async () => {
    let atEnd: ((paths: readonly string[]) => Promise<void>) | undefined;
    const server = await start({
      wrap: (backend) =>
        wrapBackend(backend, {
          list: (list) => async (options) => {
            const page = await list(options);
            if (options?.prefix === "uploads/1/") await atEnd?.(await server.files());
            return page;
          },
        }),
    });
    await sent(server, 2 * minute);
    const lastByteAt = new Date(Date.now() + 10 * minute);
    atEnd = async (paths) => {
      for (const path of paths) await utimes(path, lastByteAt, lastByteAt);
    };
    await sweepAt(server, 8 * minute);
    atEnd = undefined;
    expect(await server.files()).toHaveLength(all);
    await sweepAt(server, 16 * minute);
    expect(await server.files()).toEqual([]);
  });

  test("an upload that cannot be swept keeps no other one", async () => {
    let stuck = "";
    const server = await start({
      wrap: (backend) =>
        wrapBackend(backend, {
          remove: (remove) => async (key, options) => {
            if (key.includes(stuck)) throw new Error("stuck");
            return remove(key, options);
          },
        }),
    });
    const uploadIds = [await sent(server, 2 * minute), await sent(server, 2 * minute)];
    // whichever is looked at first
    stuck = uploadIds.toSorted()[0]!;
    // what a folder keeps of steps has no key, and goes where the plan is looked at first
    const objects = async (): Promise<string[]> =>
      (await server.files()).filter((path) => !basename(path).startsWith("."));
    const before = await objects();
    await sweepAt(server, 8 * minute);
    expect(await objects()).toEqual(before.filter((path) => path.includes(stuck)));
    expect(server.errors).toHaveLength(1);
  });

  test("a confirmed file is no longer counted once its slot has expired", async () => {
    const server = await start();
    const uploadId = await sent(server, 2 * minute);
    await server.uploads.confirm(alice, uploadId, [claim]);
    expect(server.uploads.progress(uploadId).bytes).toBe(110);
    await sweepAt(server, 8 * minute);
    expect(server.uploads.progress(uploadId)).toEqual({ bytes: 0 });
  });

  test("uploads of another version of the layout beside ours stay as they are, and count for nobody", async () => {
    const server = await start();
    await sent(server, 2 * minute);
    const ours = (await server.files()).filter((path) => !basename(path).startsWith("."));
    for (const path of ours) {
      const other = path.replace("/uploads/1/", "/uploads/2/");
      await mkdir(dirname(other), { recursive: true });
      await copyFile(path, other);
    }
    await sweepAt(server, 8 * minute);
    const left = (await server.files()).map((path) => path.replace("/uploads/2/", "/uploads/1/"));
    expect(left.toSorted()).toEqual(ours.toSorted());
    expect((await server.files()).filter((path) => path.includes("/uploads/1/"))).toEqual([]);
    const root = ours[0]!.split("/uploads/")[0]!;
    const bounded = await start({
      root,
      uploads: { limits: { fileBytes: { perPrincipal: 150 } } },
    });
    const { url } = await bounded.slot({ maxBytes: 1_000 });
    const init = { method: "PUT", headers: bearer("alice"), body: noise(60) };
    expect((await fetch(url, init)).status).toBe(201);
  });

  test("a server that starts sweeps, and counts what is there already", async () => {
    const first = await start();
    await sent(first, 2 * minute);
    const root = (await first.files())[0]!.split("/uploads/")[0]!;
    const uploads = { limits: { fileBytes: { perPrincipal: 150 } } };
    const second = await start({ root, uploads });
    await second.uploads.sweep();
    const terms = { accept: [], maxBytes: 1_000, maxFiles: 1 };
    const { url } = await second.uploads.reserve(alice, terms);
    const init = { method: "PUT", headers: bearer("alice"), body: noise(60) };
    expect((await fetch(url, init)).status).toBe(507);
  });
});

test("uploads end by the clock of the store, not by that of the process that sweeps or confirms", async () => {
  const realNow = Date.now;
  for (const [named, isKept] of [
    [{ now: async () => realNow() }, true],
    [{}, false], // the twin: a store without a clock
  ] as const) {
    const store = { ...createMemoryUploadStore(), ...named };
    const server = await startUploadServer({ uploads: { stores: { uploads: store } } });
    const uploadId = await sent(server, 2 * minute);
    const before = await server.files();
    await sweepAt(server, 8 * minute);
    expect(await server.files()).toEqual(isKept ? before : []);
    if (!isKept) continue;
    vi.spyOn(Date, "now").mockReturnValue(realNow() + 8 * minute);
    const confirming = server.uploads.confirm(alice, uploadId, [claim]);
    expect(await confirming.finally(() => vi.restoreAllMocks())).toMatchObject([{ size: 100 }]);
  }
});

test("a process behind confirms nothing that the others sweep already", async () => {
  const realNow = Date.now;
  const store = { ...createMemoryUploadStore(), now: async () => realNow() + 8 * minute };
  const server = await startUploadServer({ uploads: { stores: { uploads: store } } });
  const uploadId = await sent(server, 2 * minute);
  const confirming = server.uploads.confirm(alice, uploadId, [claim]);
  await expect(confirming).rejects.toMatchObject({ code: "expired" });
});

test("a sweep whose request ended, as in Workers, keeps no later one waiting", async () => {
  let isGone = false;
  const server = await startUploadServer({
    wrap: (backend) =>
      wrapBackend(backend, {
        list: (list) => (options) => {
          if (!isGone || options?.prefix !== "uploads/1/") return list(options);
          isGone = false;
          return new Promise((_resolve, reject) => {
            options.signal?.addEventListener("abort", () => reject(new Error("the end")));
          });
        },
      }),
  });
  await server.uploads.sweep();
  isGone = true;
  const lost = server.uploads.sweep();
  lost.catch(() => {});
  await vi.waitFor(() => expect(isGone).toBe(false));
  await sent(server, 2 * minute);
  await sweepAt(server, 8 * minute);
  expect(await server.files()).toEqual([]);
  await server.uploads.close();
  await expect(lost).rejects.toThrow("the end");
});

test("states follow from what lies in storage alone", () => {
  const uploadId = "A".repeat(32);
  const fileId = "B".repeat(32);
  const folder = folderOf({ uploadId, owner: "0a", expiresAt: 5_000 });
  const object = (key: string, size = 10): ObjectInfo => ({ key, size });
  const plan = object(planKey(folder, fileId));
  const steps = [0, 30].map((offset) => object(stepKey(folder, fileId, offset)));
  const parts = [0, 10, 20].map((offset) => object(partKey(folder, fileId, offset)));
  expect(stateOf([])).toMatchObject({ phase: "reserved" });
  expect(stateOf([plan, ...parts]).unfinished.get(fileId)?.offset).toBe(30);
  // a part behind a gap was never promised
  expect(stateOf([plan, parts[0]!, parts[2]!]).unfinished.get(fileId)).toEqual({
    offset: 10,
    parts: [parts[0]!.key],
  });
  expect(stateOf([...parts]).unfinished.size).toBe(0);
  expect(stateOf([plan, ...steps]).unfinished.get(fileId)).toEqual({ offset: 40, parts: [] });
  expect(stateOf([...steps]).unfinished.size).toBe(0);
  const record = object(recordKey(folder, 0));
  expect(stateOf([plan, record])).toMatchObject({ phase: "stored", places: [0], expiresAt: 5_000 });
  expect(stateOf([record, object(`${folder}confirmed`)]).phase).toBe("confirmed");
  // another folder of the same upload is not ours
  const foreign = folderOf({ uploadId, owner: "0b", expiresAt: 5_000 });
  expect(stateOf([plan, object(`${foreign}confirmed`)]).phase).toBe("receiving");
  for (const key of [
    "uploads/1/x/0a.5/confirmed",
    `${folder}other`,
    `uploads/1/${uploadId}/confirmed`,
    `uploads/${uploadId}/0a.5/confirmed`,
    `uploads/2/${uploadId}/0a.5/confirmed`,
  ])
    expect(parseObject({ key })).toBeUndefined();
});
