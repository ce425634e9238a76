import { withResumedReads, withValidation, protectIn } from "@sluice/storage/internal";
import { quoteKey } from "@sluice/storage/plugin";
import { createGraphBackend } from "@sluice/storage-graph";
import { describe, expect, test } from "vitest";
import { pattern, readAll, readKey, startEmulated } from "./emulated.ts";

// The numbers are those of a list of traps that clients of Graph fall into. Two cannot occur here and have no test:
// G22, a wait that no abort ends, since nothing here waits; and G23, answers of a batch taken by their position or for
// successes because the batch was one, since no batch is sent.

const content = pattern(1_000_000);

test("G1: no bearer leaves for the hosts of content, and the emulator would see one", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  await readKey(graph.backend, "a.bin");
  await readKey(graph.backend, "a.bin", { range: { start: 10, end: 20 } });
  const elsewhere = graph.emulator.requests.filter(({ origin }) => origin !== "graph");
  expect(elsewhere).toHaveLength(2);
  expect(elsewhere.filter(({ headers }) => "authorization" in headers)).toEqual([]);
  const asked = graph.emulator.requests.filter(({ origin }) => origin === "graph");
  expect(asked.every(({ headers }) => headers["authorization"]?.includes("Bearer "))).toBe(true);

  const { url = "" } = (await graph.backend.presign?.("a.bin", { expiresInMs: 1000 })) ?? {};
  const { status } = await fetch(url, { headers: { authorization: "Bearer astray" } });
  expect(status).toBe(401);
  expect(graph.emulator.requests.at(-1)?.headers["authorization"]).toBe("Bearer astray");
});

test("G2: a range goes to the download URL alone, where it means something", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  const bytes = await readKey(graph.backend, "a.bin", { range: { start: 5, end: 700_000 } });
  expect(bytes.equals(content.subarray(5, 700_000))).toBe(true);
  const ranges = graph.emulator.requests.map(({ origin, headers }) => [origin, headers["range"]]);
  expect(ranges.filter(([, range]) => range)).toEqual([["download", "bytes=5-699999"]]);
});

test("G3: a 200 to a range is sliced", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on: /^GET download/, ignoreRange: true });
  const range = { start: 300_001, end: 900_000 };
  const opened = await graph.backend.open("a.bin", { range });
  expect(opened.range).toEqual(range);
  expect((await readAll(opened.body)).equals(content.subarray(300_001, 900_000))).toBe(true);
});

test("G4: the size is what the download says, not what the item reports", async () => {
  await using graph = await startEmulated();
  graph.drive.put("report.docx", content, { reportedSize: 999_000 });
  const { info, body } = await withValidation(graph.backend).open("report.docx");
  expect(info.size).toBe(1_000_000);
  expect((await readAll(body)).equals(content)).toBe(true);
  const range = { start: 999_500 };
  const end = await readKey(graph.backend, "report.docx", { range });
  expect(end.equals(content.subarray(999_500))).toBe(true);
});

test("G5: every open has its own download URL, even one that resumes", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  const { etag: ifMatch = "" } = await graph.backend.describe("a.bin");
  for (const start of [0, 500_000])
    await readKey(graph.backend, "a.bin", { range: { start }, ifMatch });
  expect(new Set(graph.sent("download")).size).toBe(2);
});

test(
  "G6: a download URL is used as it came, down to the case of its escapes",
  { tags: "slow" },
  async () => {
    await using graph = await startEmulated();
    graph.drive.put("a.bin", content);
    await readKey(graph.backend, "a.bin");
    expect(graph.sent("download")[0]).toMatch(/tempauth=v1\.\w+\.a%2bb%20c&/);
    // the twin: a query that was written anew is refused
    const { url = "" } = (await graph.backend.presign?.("a.bin", { expiresInMs: 1000 })) ?? {};
    const rewritten = new URL(url);
    rewritten.searchParams.set("ApiVersion", "2.0");
    expect((await fetch(rewritten)).status).toBe(401);
    expect((await fetch(url)).status).toBe(200);
  },
);

describe("G8: a refused download URL is replaced once", () => {
  test.each([401, 403, 404, 410])("the next one works after a %i", async (status) => {
    await using graph = await startEmulated();
    graph.drive.put("a.bin", content);
    graph.emulator.fault({ on: /^GET download/, status });
    expect((await readKey(graph.backend, "a.bin")).equals(content)).toBe(true);
    expect(new Set(graph.sent("download")).size).toBe(2);
  });

  test.each([
    [401, "unavailable"],
    [403, "permission_denied"],
    [404, "not_found"],
    [410, "not_found"],
  ])("a second %i is %s", async (status, code) => {
    await using graph = await startEmulated();
    graph.drive.put("a.bin", content);
    graph.emulator.fault({ on: /^GET download/, status, times: 2 });
    await expect(graph.backend.open("a.bin")).rejects.toMatchObject({ code });
    expect(graph.sent("download")).toHaveLength(2);
  });

  test("a URL that expires before it is used is not the user's fault", async () => {
    await using graph = await startEmulated({}, { expiredStatus: 403 });
    graph.drive.put("a.bin", content);
    graph.emulator.fault({ on: /^GET download/, meanwhile: () => graph.emulator.expireLinks() });
    expect((await readKey(graph.backend, "a.bin")).equals(content)).toBe(true);
  });
});

test("G9: items are asked for without their annotations; the URL comes from /content", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  await readKey(graph.backend, "a.bin");
  const paths = graph.sent("graph").map((line) => line.replace(/\?.*/, "").split("/").at(-1));
  expect(paths).toEqual(["a.bin", "content", expect.stringContaining("01EMULATED")]);
  const selections = graph.sent("graph").map((line) => /\$select=(.*)$/.exec(line)?.[1]);
  expect(selections.join()).not.toContain("@");
});

test("G10: a change of metadata changes no etag and ends no body", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  const { info, body } = await graph.backend.open("a.bin");
  graph.drive.touch("a.bin");
  expect((await readAll(body)).equals(content)).toBe(true);
  const again = await graph.backend.open("a.bin", { ifMatch: info.etag ?? "" });
  expect(again.info.etag).toBe(info.etag);
  await again.body.cancel();
});

test("G11: a resume with the etag of an older version is precondition_failed before any URL", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  const { etag: ifMatch = "" } = await graph.backend.describe("a.bin");
  graph.drive.put("a.bin", pattern(1_000_000, 2));
  const resumed = graph.backend.open("a.bin", { ifMatch, range: { start: 500_000 } });
  await expect(resumed).rejects.toMatchObject({ code: "precondition_failed" });
  expect(graph.sent("download")).toEqual([]);
});

test("G12: bytes that are newer than the metadata never make a complete body", async () => {
  await using graph = await startEmulated();
  const newer = pattern(1_000_000, 2);
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on: /^GET download/, meanwhile: () => graph.drive.put("a.bin", newer) });
  const { body } = await graph.backend.open("a.bin");
  const chunks: Uint8Array[] = [];
  const reading = (async () => {
    for await (const chunk of body) chunks.push(chunk);
  })();
  await expect(reading).rejects.toMatchObject({ code: "precondition_failed" });
  // the twin: the newer bytes came, so only the look at the end has stopped them
  const got = Buffer.concat(chunks);
  expect(got.equals(newer.subarray(0, got.byteLength))).toBe(true);
  expect(got.byteLength).toBeLessThan(newer.byteLength);
});

test.each([
  ["time", { lastModifiedDateTime: "2026-02-02T00:00:00Z" }],
  ["size", { size: 7 }],
])("G12: without a tag the %s tells that it changed", async (_, change) => {
  await using graph = await startEmulated();
  const id = graph.drive.put("a.bin", content);
  const { byteLength: size } = content;
  const lastModifiedDateTime = "2026-01-01T00:00:00Z";
  const json = { id, name: "a.bin", size, lastModifiedDateTime, cTag: 'W/"1"', file: {} };
  const read = async (later: object) => {
    graph.emulator.fault({ on: /^GET graph .*root:/, json });
    graph.emulator.fault({ on: /^GET graph .*items\/[^/]*\?/, json: { ...json, ...later } });
    return readKey(graph.backend, "a.bin");
  };
  expect((await read({})).equals(content)).toBe(true);
  await expect(read(change)).rejects.toMatchObject({ code: "precondition_failed" });
});

test("G13: the described file is read, whatever takes its name by then", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({
    on: /^GET graph .*\/content$/,
    meanwhile() {
      graph.drive.rename("a.bin", "b.bin");
      graph.drive.put("a.bin", "somebody else's");
    },
  });
  expect((await readKey(graph.backend, "a.bin")).equals(content)).toBe(true);
});

test("G14: names with signs of URLs reach their own file, and no other", async () => {
  await using graph = await startEmulated();
  const keys = [
    "a#b/c%d.txt",
    "50%25/x+y.txt",
    "it's (1) & ä=ö;,@$!~.txt",
    "%2e%2e/x.txt",
    "日本/😀.txt",
  ];
  for (const key of keys) graph.drive.put(key, key);
  for (const key of keys) {
    expect((await graph.backend.describe(key)).key).toBe(key);
    expect((await readKey(graph.backend, key)).toString()).toBe(key);
  }
});

test.each(["a*b", 'a"b', "a:b", "a<b", "a>b", "a?b", "a|b", " a", "a ", "a.", "x /b", "x./b"])(
  "%j has no key here: it is reserved, or another name to the service",
  async (key) => {
    await using graph = await startEmulated();
    const { backend } = graph;
    for (const call of [backend.describe(key), backend.open(key), backend.write?.(key)])
      await expect(call).rejects.toMatchObject({ code: "invalid_argument" });
    await expect(graph.backend.presign?.(key, { expiresInMs: 1 })).rejects.toMatchObject({
      code: "invalid_argument",
      message: expect.stringContaining(quoteKey(key)) as string,
    });
    expect(graph.emulator.requests).toEqual([]);
  },
);

test("a path that is too long for the drive is invalid_argument", async () => {
  await using graph = await startEmulated();
  const key = `${"x".repeat(200)}/${"y".repeat(201)}`;
  await expect(graph.backend.describe(key)).rejects.toMatchObject({ code: "invalid_argument" });
});

test("G16: notebooks and folders are unsupported, and flagged files are denied", async () => {
  await using graph = await startEmulated();
  graph.drive.putPackage("Notes");
  graph.drive.putFolder("folder");
  graph.drive.put("virus.exe", "x", { malware: true });
  for (const [key, code] of Object.entries({
    Notes: "unsupported",
    folder: "unsupported",
    "virus.exe": "permission_denied",
  }))
    for (const call of [
      graph.backend.describe(key),
      graph.backend.open(key),
      graph.backend.presign?.(key, { expiresInMs: 1000 }),
    ])
      await expect(call).rejects.toMatchObject({ code });
  expect((await graph.backend.list()).objects).toEqual([]);
});

test("G16: a file that is flagged after it was described is denied by the service", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.exe", "x");
  graph.emulator.fault({
    on: /^GET graph .*\/content$/,
    meanwhile: () => graph.drive.put("a.exe", "x", { malware: true }),
  });
  await expect(graph.backend.open("a.exe")).rejects.toMatchObject({ code: "permission_denied" });
});

test("G17: a shortcut is unsupported, and no path leads through it into another drive", async () => {
  await using graph = await startEmulated();
  const other = graph.emulator.addDrive("b!other", { isReachable: true });
  other.put("folder/canary.txt", "canary");
  graph.drive.putShortcut("shortcut", other, "folder");
  await expect(graph.backend.open("shortcut")).rejects.toMatchObject({ code: "unsupported" });
  const key = "shortcut/canary.txt";
  for (const call of [graph.backend.describe(key), graph.backend.open(key)])
    await expect(call).rejects.toMatchObject({ code: "not_found" });
  // the twin: the service did answer
  const { origins, credential } = graph.emulator;
  const { token } = await credential.getToken();
  const url = `${origins.graph}/v1.0/drives/${graph.drive.id}/root:/shortcut/canary.txt`;
  const { status } = await fetch(url, { headers: { authorization: `Bearer ${token}` } });
  expect(status).toBe(200);
});

test("a stored gzip is delivered as it is, and the type is the one of the service", async () => {
  await using graph = await startEmulated();
  const packed = Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3, 3, 0, 0, 0, 0, 0, 0, 0, 0, 0]);
  graph.drive.put("a.gz", packed, { mimeType: "application/gzip" });
  const { info, body } = await graph.backend.open("a.gz");
  expect(info.contentType).toBe("application/gzip");
  expect((await readAll(body)).equals(packed)).toBe(true);
});

test("a cancelled body destroys its connection, and nothing more is sent", async () => {
  await using graph = await startEmulated();
  const size = 2 ** 30;
  graph.drive.put("big.bin", { size, read: (start, end) => new Uint8Array(end - start) });
  const { body } = await graph.backend.open("big.bin");
  const reader = body.getReader();
  await reader.read();
  expect(graph.emulator.openAnswers()).toBe(1);
  await reader.cancel();
  await expect.poll(() => graph.emulator.openAnswers()).toBe(0);
  expect(graph.emulator.sentBytes()).toBeLessThan(size / 16);
});

const unwell = "<html><body>An error occurred</body></html>";

test.each([
  ["a page without a length", { type: "text/html", text: unwell, isCounted: false }],
  ["a page with a length", { type: "text/html", text: unwell, isCounted: true }],
  ["the JSON of an error", { type: "application/json", text: '{"error":{}}', isCounted: true }],
  ["bytes of another length", { type: "application/octet-stream", text: "?", isCounted: true }],
  ["bytes without a length", { type: "application/octet-stream", text: "?", isCounted: false }],
])("%s with status 200 is not a file: it is asked for again", async (_, page) => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on: /^GET download/, page });
  await expect(graph.backend.open("a.bin")).rejects.toMatchObject({ code: "unavailable" });
  graph.emulator.fault({ on: /^GET download/, page });
  const { info, body } = await protectIn(graph.backend, { random: () => 0 }).open("a.bin");
  expect(info.size).toBe(content.byteLength);
  expect((await readAll(body)).equals(content)).toBe(true);
});

test("a page that is the file itself, by type and length, is read", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.html", unwell, { mimeType: "text/html" });
  const page = { type: "text/html; charset=utf-8", text: unwell, isCounted: true };
  graph.emulator.fault({ on: /^GET download/, page });
  expect((await readKey(graph.backend, "a.html")).toString()).toBe(unwell);
});

test.each([
  ["names no version", { isWithoutVersion: true }],
  ["names another version", { isOtherVersion: true }],
])("a body that broke never resumes with an answer that %s", async (_, fault) => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  graph.emulator.fault({ on: /^GET download/, resetAfter: 400_000 });
  const { body } = await withResumedReads(withValidation(graph.backend)).open("a.bin");
  graph.emulator.fault({ on: /^GET download/, ...fault });
  await expect(readAll(body)).rejects.toMatchObject({
    code: expect.stringMatching(/^(?:unavailable|precondition_failed)$/) as string,
  });
});

test("presign: Graph's own URL, soon over, and none with wishes it cannot have", async () => {
  await using graph = await startEmulated();
  graph.drive.put("a.bin", content);
  const before = Date.now();
  const { url = "", expiresAt } =
    (await graph.backend.presign?.("a.bin", { expiresInMs: 3_600_000 })) ?? {};
  expect(url.startsWith(`${graph.emulator.origins.download}/`)).toBe(true);
  expect((expiresAt ?? 0) - before).toBeLessThanOrEqual(121_000);
  expect(Buffer.from(await (await fetch(url)).arrayBuffer()).equals(content)).toBe(true);
  for (const wish of [{ contentType: "text/plain" }, { contentDisposition: "inline" }])
    expect(await graph.backend.presign?.("a.bin", { expiresInMs: 1000, ...wish })).toBe(undefined);
});

test("a root by id is the same as one by path, and survives being renamed", async () => {
  await using graph = await startEmulated();
  graph.drive.put("outside.txt", "outside");
  const id = graph.drive.putFolder("a/Root");
  graph.drive.put("a/Root/b/c.txt", "inside");
  const { credential, origins } = graph.emulator;
  const backend = createGraphBackend({
    credential,
    driveId: graph.drive.id,
    root: { id },
    baseUrl: origins.graph,
  });
  graph.drive.rename("a/Root", "Renamed");
  expect((await backend.describe("B/C.txt")).key).toBe("b/c.txt");
  expect((await backend.list()).objects.map(({ key }) => key)).toEqual(["b/c.txt"]);
  expect(backend).not.toHaveProperty("write");
  await backend.close?.();
});
