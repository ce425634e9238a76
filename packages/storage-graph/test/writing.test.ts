import { readdirSync } from "node:fs";
import { open } from "node:fs/promises";
import { tmpdir } from "node:os";
import { type StorageBackend } from "@sluice/storage";
import { protectIn } from "@sluice/storage/internal";
import { describe, expect, test, vi } from "vitest";
import { type Emulated, pattern, readKey, startEmulated, writeKey } from "./emulated.ts";

const fragment = 5 * 1024 * 1024;
const large = pattern(fragment + 500_003);

/** The fragments that were sent, as their `Content-Range`. */
function fragments({ emulator }: Emulated): unknown[] {
  return emulator.requests
    .filter(({ origin, method }) => origin === "upload" && method === "PUT")
    .map(({ headers }) => headers["content-range"]);
}

/** The backend as servers use it, without the pauses. */
function patient({ backend }: Emulated): StorageBackend {
  return protectIn(backend, { random: () => 0 });
}

function countSpools(): number {
  return readdirSync(tmpdir()).filter((name) => name.startsWith("sluice-graph-")).length;
}

test("G24: small and empty files are one request, without a session", async () => {
  await using graph = await startEmulated();
  await writeKey(graph.backend, "folder/empty.txt", Buffer.alloc(0), { size: 0 });
  await writeKey(graph.backend, "small.txt", Buffer.from("small"), { contentType: "text/plain" });
  await writeKey(graph.backend, "limit.bin", large.subarray(0, fragment));
  expect(graph.sent("upload")).toEqual([]);
  expect(graph.sent("graph").every((line) => line.startsWith("PUT"))).toBe(true);
  expect(await readKey(graph.backend, "folder/empty.txt")).toHaveLength(0);
  expect((await graph.backend.describe("small.txt")).contentType).toBe("text/plain");
  expect((await readKey(graph.backend, "limit.bin")).equals(large.subarray(0, fragment))).toBe(
    true,
  );
});

test("G24: large files go in fragments of 16 × 320 KiB, without the bearer", async () => {
  await using graph = await startEmulated();
  const { byteLength: size } = large;
  const info = await writeKey(graph.backend, "a/large.bin", large, { size });
  expect(info).toEqual(await graph.backend.describe("a/large.bin"));
  expect(fragments(graph)).toEqual([
    `bytes 0-${fragment - 1}/${size}`,
    `bytes ${fragment}-${size - 1}/${size}`,
  ]);
  const uploads = graph.emulator.requests.filter(({ origin }) => origin === "upload");
  expect(uploads.filter(({ headers }) => "authorization" in headers)).toEqual([]);
  expect((await readKey(graph.backend, "a/large.bin")).equals(large)).toBe(true);
});

test("the last fragment waits for commit: before it there is no file", async () => {
  await using graph = await startEmulated();
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength });
  await writer?.write(large.slice());
  await expect.poll(() => fragments(graph)).toHaveLength(1);
  await expect(graph.backend.describe("a.bin")).rejects.toMatchObject({ code: "not_found" });
  await writer?.commit();
  expect((await graph.backend.describe("a.bin")).size).toBe(large.byteLength);
});

test.each(["write", "read"] as const)(
  "a temporary file that fails at its %s is no_space, and goes",
  async (operation) => {
    await using graph = await startEmulated();
    const before = countSpools();
    const handle = await open(import.meta.filename);
    await handle.close();
    const fault = Object.assign(new Error("ENOSPC: no space left on device"), { code: "ENOSPC" });
    const spy = vi.spyOn(Object.getPrototypeOf(handle) as typeof handle, operation);
    spy.mockRejectedValue(fault);
    const writing = writeKey(graph.backend, "a.bin", large);
    await expect(writing).rejects.toMatchObject({ code: "no_space", cause: fault });
    spy.mockRestore();
    expect([countSpools(), graph.emulator.openSessions()]).toEqual([before, 0]);
  },
);

test("an abort while a session begins rejects at once, and the session is cancelled", async () => {
  await using graph = await startEmulated();
  const caller = new AbortController();
  const reason = new Error("the caller's reason");
  const options = { size: large.byteLength, signal: caller.signal };
  const writer = await graph.backend.write?.("a.bin", options);
  graph.emulator.fault({ on: /createUploadSession/, meanwhile: () => caller.abort(reason) });
  await writer?.write(large.slice());
  await expect(writer?.commit()).rejects.toBe(reason);
  await writer?.abort();
  expect(graph.sent("upload").map((line) => line.split(" ")[0])).toEqual(["DELETE"]);
  expect(graph.emulator.openSessions()).toBe(0);
});

test("without a size the bytes wait in a temporary file, which is gone afterwards", async () => {
  await using graph = await startEmulated();
  const before = countSpools();
  const writer = await graph.backend.write?.("a.bin");
  await writer?.write(large.slice());
  await expect.poll(countSpools).toBe(before + 1);
  expect(graph.sent("upload")).toEqual([]);
  await writer?.commit();
  expect(fragments(graph).at(-1)).toBe(
    `bytes ${fragment}-${large.byteLength - 1}/${large.byteLength}`,
  );
  expect((await readKey(graph.backend, "a.bin")).equals(large)).toBe(true);
  const abandoned = await graph.backend.write?.("b.bin");
  await abandoned?.write(large.slice());
  await abandoned?.abort();
  expect(countSpools()).toBe(before);
});

describe("a fragment that broke is continued where the service says that it stands", () => {
  test.each([
    ["the connection is reset", { resetAfter: 100_000 }],
    ["the service fails", { status: 500 }],
    ["G24: the service says 416", { status: 416, code: "invalidRange" }],
  ])("%s", async (_, fault) => {
    await using graph = await startEmulated();
    graph.emulator.fault({ on: /^PUT upload/, ...fault });
    await writeKey(patient(graph), "a.bin", large, { size: large.byteLength });
    expect((await readKey(graph.backend, "a.bin")).equals(large)).toBe(true);
    expect(graph.sent("upload").filter((line) => line.startsWith("GET"))).toHaveLength(1);
    expect(fragments(graph)).toHaveLength(3);
  });

  test("G24: bytes of it that the service has are not sent again", async () => {
    await using graph = await startEmulated();
    // the answer to the first fragment got lost
    graph.emulator.fault({ on: /^GET upload/, json: { nextExpectedRanges: [`${fragment}-`] } });
    graph.emulator.fault({ on: /^PUT upload/, status: 500 });
    const writing = writeKey(patient(graph), "a.bin", large, { size: large.byteLength });
    await expect(writing).rejects.toMatchObject({ code: "interrupted" });
    expect(fragments(graph)[1]).toBe(
      `bytes ${fragment}-${large.byteLength - 1}/${large.byteLength}`,
    );
  });

  test("again and again is an error, and the session is cancelled", async () => {
    await using graph = await startEmulated();
    graph.emulator.fault({ on: /^PUT upload/, status: 500, times: 4 });
    const writing = writeKey(patient(graph), "a.bin", large, { size: large.byteLength });
    await expect(writing).rejects.toMatchObject({ code: "unavailable" });
    expect(graph.emulator.openSessions()).toBe(0);
    await expect(graph.backend.describe("a.bin")).rejects.toMatchObject({ code: "not_found" });
  });
});

test.each([
  [404, "interrupted"],
  [401, "interrupted"],
  [409, "precondition_failed"],
  [413, "too_large"],
  [507, "no_space"],
])("a fragment that is refused with %i is %s", async (status, code) => {
  await using graph = await startEmulated();
  graph.emulator.fault({ on: /^PUT upload/, status });
  const writing = writeKey(graph.backend, "a.bin", large, { size: large.byteLength });
  await expect(writing).rejects.toMatchObject({ code });
});

test("a conflict that shows with the last fragment is precondition_failed, and nothing is left", async () => {
  await using graph = await startEmulated();
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength, ifAbsent: true });
  await writer?.write(large.slice());
  graph.drive.put("a.bin", "somebody else's");
  await expect(writer?.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  expect(graph.emulator.openSessions()).toBe(0);
  expect((await readKey(graph.backend, "a.bin")).toString()).toBe("somebody else's");
});

test("ifMatch is compared again before the last fragment of a long upload", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", "first");
  const { etag: ifMatch = "" } = await graph.backend.describe("a.bin");
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength, ifMatch });
  await writer?.write(large.slice());
  graph.drive.put("a.bin", "second");
  await expect(writer?.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  expect((await readKey(graph.backend, "a.bin")).toString()).toBe("second");
  expect(graph.emulator.openSessions()).toBe(0);
});

test("ifMatch for a file that was removed by then creates none, although the service would", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", "first");
  const { etag: ifMatch = "" } = await graph.backend.describe("a.bin");
  const writer = await graph.backend.write?.("a.bin", { ifMatch });
  await writer?.write(Buffer.from("second"));
  graph.drive.remove("a.bin");
  await expect(writer?.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  await expect(graph.backend.describe("a.bin")).rejects.toMatchObject({ code: "not_found" });
  // the twin: the service does not compare where there is nothing
  const { origins, credential } = graph.emulator;
  const { token } = await credential.getToken();
  const headers = { authorization: `Bearer ${token}`, "if-match": `"${ifMatch}"` };
  const url = `${origins.graph}/v1.0/drives/${graph.drive.id}/root:/a.bin:/content`;
  const { status } = await fetch(url, { method: "PUT", body: "second", headers });
  expect(status).toBe(201);
});

test("an abort in the middle of a fragment rejects at once with its reason and cancels the session", async () => {
  await using graph = await startEmulated();
  const caller = new AbortController();
  const { signal } = caller;
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength, signal });
  graph.emulator.fault({ on: /^PUT upload/, delayMs: 86_400_000 });
  await writer?.write(large.slice());
  const committing = writer?.commit();
  await expect.poll(() => fragments(graph).length).toBe(1);
  const reason = new Error("the caller's reason");
  caller.abort(reason);
  await expect(committing).rejects.toBe(reason);
  await writer?.abort();
  expect(graph.emulator.openSessions()).toBe(0);
  expect(graph.sent("upload").at(-1)).toMatch(/^DELETE/);
});

test("abort between two writes ends the current fragment, and cancels the session", async () => {
  await using graph = await startEmulated();
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength });
  graph.emulator.fault({ on: /^PUT upload/, delayMs: 86_400_000 });
  await writer?.write(large.subarray(0, fragment + 1));
  await expect.poll(() => fragments(graph).length).toBe(1);
  await writer?.abort();
  await expect(writer?.write(large.subarray(fragment + 1))).rejects.toThrow(TypeError);
  expect(graph.emulator.openSessions()).toBe(0);
  expect(graph.sent("upload").map((line) => line.split(" ")[0])).toEqual(["PUT", "DELETE"]);
});

test("a fragment that fails while the next is filled is reported by the next step, and the session is cancelled", async () => {
  await using graph = await startEmulated();
  const writer = await graph.backend.write?.("a.bin", { size: large.byteLength });
  graph.emulator.fault({ on: /^PUT upload/, status: 507, code: "quotaLimitReached" });
  await writer?.write(large.subarray(0, fragment + 1));
  await expect.poll(() => fragments(graph).length).toBe(1);
  await writer?.write(large.subarray(fragment + 1));
  await expect(writer?.commit()).rejects.toMatchObject({ code: "no_space" });
  await expect(writer?.write(large.subarray(0, 1))).rejects.toThrow(TypeError);
  expect(graph.emulator.openSessions()).toBe(0);
});

test("G15: a write over another spelling replaces the file and tells its stored name", async () => {
  await using graph = await startEmulated();
  graph.drive.put("Folder/Report.txt", "old");
  const info = await writeKey(graph.backend, "folder/REPORT.TXT", Buffer.from("new"));
  expect(info.key).toBe("Folder/Report.txt");
  expect((await graph.backend.list()).objects).toHaveLength(1);
});

test("a file that the service stored under another name is reported, never passed off", async () => {
  await using graph = await startEmulated();
  graph.emulator.fault({
    on: /^PUT graph/,
    json: { name: "testF.txt", parentReference: { path: `/drives/${graph.drive.id}/root:` } },
  });
  const writing = writeKey(graph.backend, "test%46.txt", Buffer.from("x"));
  await expect(writing).rejects.toMatchObject({ code: "protocol" });
});
