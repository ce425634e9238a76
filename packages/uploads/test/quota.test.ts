import { SluiceError } from "@sluice/core";
import { expect, test, vi } from "vitest";
import { createLedger } from "../src/lib/ledger.ts";
import { bearer, noise, startUploadServer } from "./upload-server.ts";

const put = (url: string, body: Uint8Array<ArrayBuffer>): Promise<Response> =>
  fetch(url, { method: "PUT", headers: bearer("alice"), body });

test("of 200 uploads at once no more is kept than the quota, and nothing of the others", async () => {
  const quota = { concurrent: 200, bytes: 500_000, files: 1_000 };
  const server = await startUploadServer({ uploads: { quota } });
  const answers = await Promise.all(
    Array.from({ length: 200 }, () => put(server.slot().url, noise(10_000))),
  );
  const statuses = answers.map(({ status }) => status);
  expect(new Set(statuses)).toEqual(new Set([201, 507]));
  expect(statuses.filter((status) => status === 201)).toHaveLength(50);
  // bytes and record of each
  expect(await server.files()).toHaveLength(100);
});

test("of many that one user sends at once four are read, and places come back", async () => {
  const server = await startUploadServer({
    uploads: { onScan: () => scanning.then(() => "clean") },
  });
  let finishScan = (): void => {};
  const scanning = new Promise<void>((resolve) => void (finishScan = resolve));
  const sent = Array.from({ length: 4 }, () => put(server.slot().url, noise(100)));
  await expect.poll(() => server.files()).toHaveLength(4);
  const fifth = await put(server.slot().url, noise(100));
  expect([fifth.status, fifth.headers.get("retry-after")]).toEqual([429, "1"]);
  finishScan();
  expect((await Promise.all(sent)).map(({ status }) => status)).toEqual([201, 201, 201, 201]);
  expect((await put(server.slot().url, noise(100))).status).toBe(201);
});

test("the requests of a user count with all others of that user", async () => {
  const counted: string[] = [];
  const perPrincipal = {
    async consume(key: string) {
      counted.push(key);
      if (counted.length > 2) throw Object.assign(new Error("too many"), { msBeforeNext: 4_200 });
    },
  };
  const server = await startUploadServer({ sluice: { limits: { requests: { perPrincipal } } } });
  expect((await put(server.slot().url, noise(10))).status).toBe(201);
  expect((await put(server.slot().url, noise(10))).status).toBe(201);
  const third = await put(server.slot().url, noise(10));
  expect([third.status, third.headers.get("retry-after")]).toEqual([429, "5"]);
  expect(new Set(counted)).toEqual(new Set([server.records[0]!.principal]));
});

test("a file that was left counts as what came of it, and as a whole again when it goes on", async () => {
  const server = await startUploadServer({ uploads: { quota: { bytes: 150, files: 2 } } });
  const headers = { ...bearer("alice"), "upload-complete": "?0", "upload-length": "100" };
  const begun = await fetch(server.slot().url, { method: "POST", headers, body: noise(10) });
  expect((await put(server.slot().url, noise(60))).status).toBe(507);
  vi.spyOn(Date, "now").mockReturnValue(Date.now() + 1_000);
  await server.uploads.sweep().finally(() => vi.restoreAllMocks());
  expect((await put(server.slot().url, noise(60))).status).toBe(201);
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
  const server = await startUploadServer({ uploads: { quota: { files: 1, bytes: 1_000 } } });
  const post = (bytes: Uint8Array<ArrayBuffer>): Promise<Response> => {
    const body = new FormData();
    body.append("file", new Blob([bytes]), "a.bin");
    return fetch(server.slot().url, { method: "POST", headers: bearer("alice"), body });
  };
  expect((await post(noise(100))).status).toBe(201);
  expect((await post(noise(100))).status).toBe(507);
  expect(await server.files()).toHaveLength(2);
});

test("a ledger counts what is under way and what storage shows, each once", () => {
  const ledger = createLedger({ concurrent: 1, files: 3, bytes: 100 });
  const isFull = (error: unknown): boolean => SluiceError.is(error) && error.code === "no_space";
  const fits = (fileId: string, bytes: number): boolean => {
    try {
      ledger.hold("a", fileId, bytes);
      return true;
    } catch (error) {
      if (isFull(error)) return false;
      throw error;
    }
  };
  expect(fits("1", 60)).toBe(true);
  expect(fits("2", 41)).toBe(false);
  expect(fits("2", 40)).toBe(true);
  expect(fits("1", 61)).toBe(false);
  expect(fits("1", 10)).toBe(true);
  ledger.settle("a", "1", 10);
  // listed before it was settled, so the listing says nothing of it; the other is still under way
  ledger.seed([], Date.now() - 1_000);
  expect(fits("3", 51)).toBe(false);
  ledger.seed([{ owner: "a", fileId: "9", bytes: 50 }], Date.now() + 1_000);
  expect(fits("3", 11)).toBe(false);
  expect(fits("3", 10)).toBe(true);
  expect(fits("4", 0)).toBe(false);
  for (const fileId of ["2", "3", "9"]) ledger.drop("a", fileId);
  expect(fits("5", 100)).toBe(true);
  const leave = ledger.enter("a");
  expect(() => ledger.enter("a")).toThrow(/at the same time/);
  leave();
  leave();
  ledger.enter("a")();
  for (const wrong of [{ files: 0 }, { bytes: -1 }, { concurrent: 1.5 }])
    expect(() => createLedger(wrong)).toThrow(RangeError);
});
