import { once } from "node:events";
import { type AddressInfo, createServer } from "node:net";
import { inspect } from "node:util";
import { describe, expect, test } from "vitest";
import { hostileKeys } from "../../storage-fs/test/hostile-keys.ts";
import { toSluiceError } from "../src/lib/graph-error.ts";
import { pattern, readKey, startEmulated, writeKey } from "./emulated.ts";

const content = pattern(1_000_000);
const isDeep = process.env["SLUICE_DEEP"] !== undefined;

describe("G21: a service that asks for a pause", () => {
  const answers = [
    ["429, in seconds", { status: 429, retryAfter: "7" }, 7000, 7000],
    ["503, in seconds", { status: 503, retryAfter: "120" }, 120_000, 120_000],
    ["503, until a date", { status: 503, retryAfter: "date" }, 50_000, 61_000],
    ["509 for bandwidth, for a day", { status: 509, retryAfter: "86400" }, 86_400_000, 86_400_000],
    ["429, without a word", { status: 429 }, undefined, undefined],
    ["429 with a malformed word", { status: 429, retryAfter: "soon" }, undefined, undefined],
  ] as const;
  test.each(answers)("%s", async (_, fault, least, most) => {
    await using graph = await startEmulated();
    graph.drive.put("a.bin", content);
    const inAMinute = new Date(Date.now() + 60_000).toUTCString();
    const retryAfter = "retryAfter" in fault && fault.retryAfter === "date" ? inAMinute : undefined;
    for (const on of [/^GET graph/, /content$/, /^GET download/]) {
      graph.emulator.fault({ on, ...fault, ...(retryAfter && { retryAfter }) });
      const before = graph.emulator.requests.length;
      const error: unknown = await graph.backend.open("a.bin").catch((reason: unknown) => reason);
      expect(error).toMatchObject({ code: "throttled", retryable: true });
      const { retryAfterMs } = error as { retryAfterMs?: number };
      const isAsTold =
        least === undefined
          ? retryAfterMs === undefined
          : (retryAfterMs ?? 0) >= least && (retryAfterMs ?? 0) <= (most ?? 0);
      expect(isAsTold, `it is ${retryAfterMs}`).toBe(true);
      // nothing was asked again
      expect(graph.emulator.requests.length - before).toBeLessThanOrEqual(3);
    }
  });

  test("an upload that is throttled is not tried again", async () => {
    await using graph = await startEmulated();
    graph.emulator.fault({ on: /^PUT upload/, status: 503, retryAfter: "9" });
    const size = 6 * 1024 * 1024;
    const writing = writeKey(graph.backend, "a.bin", Buffer.alloc(size), { size });
    await expect(writing).rejects.toMatchObject({ code: "throttled", retryAfterMs: 9000 });
    expect(graph.sent("upload").map((line) => line.split(" ")[0])).toEqual(["PUT", "DELETE"]);
  });
});

test("G7: no error holds a token or a URL, not even in its causes", { tags: "slow" }, async () => {
  await using graph = await startEmulated();
  const { backend, emulator } = graph;
  graph.drive.put("a.bin", content);
  const size = 5 * 1024 * 1024 + 1;
  const bodies = [{ resetAfter: 300_000 }, { truncateAfter: 300_000 }, { extraBytes: 1 }];
  const statuses = [401, 403, 404, 409, 416, 423, 429, 500].map((status) => ({ status }));
  const elsewhere = { json: { uploadUrl: "http://elsewhere:1/?tempauth=v1.stolen" } };
  const errors: unknown[] = [];
  const provoke = async (on: RegExp, fault: object, work: () => Promise<unknown> | undefined) => {
    emulator.fault({ on, ...fault, times: 2 });
    await work()?.catch((error: unknown) => errors.push(error));
  };
  for (const fault of [...statuses, ...bodies]) {
    for (const on of [/^GET graph/, /^GET download/])
      await provoke(on, fault, () => readKey(backend, "a.bin"));
    await provoke(/\/content$/, fault, () => backend.presign?.("a.bin", { expiresInMs: 1 }));
  }
  for (const fault of [...statuses, elsewhere, { resetAfter: 1000 }])
    for (const on of [/createUploadSession/, /^PUT upload/])
      await provoke(on, fault, () => writeKey(backend, "b.bin", Buffer.alloc(size), { size }));
  expect(errors.length).toBeGreaterThan(30);
  for (const error of errors) {
    const text = inspect(error, { depth: 20, showHidden: true });
    expect(text).not.toMatch(/tempauth|emulated-token|Bearer|https?:\/\//);
  }
});

test.each([
  ["headers", "302 Found\r\nno header\r\nLocation: https://x.invalid/?tempauth=v1.stolen\r\n\r\n"],
  ["JSON", '200 OK\r\nContent-Type: application/json\r\n\r\n{"u": tempauth}'],
])("G7: an answer whose %s cannot be parsed is not repeated in an error", async (_, answer) => {
  const server = createServer((socket) => {
    socket.on("error", () => {}).once("data", () => socket.end(`HTTP/1.1 ${answer}`));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  await using graph = await startEmulated({ baseUrl: `http://127.0.0.1:${port}` });
  const error: unknown = await graph.backend.describe("a").catch((reason: unknown) => reason);
  server.close();
  expect(error).toMatchObject({ code: "unavailable" });
  expect(inspect(error, { depth: 20, showHidden: true })).not.toContain("tempauth");
});

test("hostile keys reach nothing outside the root, and ask for nothing outside", async () => {
  await using graph = await startEmulated({ root: { path: "data" } });
  graph.drive.putFolder("data");
  for (const path of ["secret.txt", "data-secret/secret.txt", "etc/passwd"])
    graph.drive.put(path, "canary");
  const other = graph.emulator.addDrive("b!other", { isReachable: true });
  other.put("link/secret.txt", "canary");
  graph.drive.putShortcut("data/link", other, "link");
  graph.drive.putShortcut("data/up", other, "link");
  const keys = hostileKeys(isDeep ? 20_000 : 300);
  const expectNothing = (key: string) =>
    expect(graph.backend.describe(key)).rejects.toMatchObject({
      code: expect.stringMatching(/^(?:not_found|invalid_argument|unsupported)$/) as string,
    });
  for (let n = 0; n < keys.length; n += 20)
    await Promise.all(keys.slice(n, n + 20).map(expectNothing));
  expect(graph.emulator.requests.length).toBeGreaterThan(100);
  const root = `/v1.0/drives/${encodeURIComponent(graph.drive.id)}/root:/data/`;
  for (const { url } of graph.emulator.requests)
    expect(new URL(url, "http://x").pathname.startsWith(root)).toBe(true);
}, 120_000);

test.each([
  [404, "itemNotFound", undefined, "not_found"],
  [403, "accessDenied", "malwareDetected", "permission_denied"],
  [409, "nameAlreadyExists", undefined, "precondition_failed"],
  [412, "preconditionFailed", "resourceModified", "precondition_failed"],
  [400, "invalidRequest", "pathIsTooLong", "invalid_argument"],
  [403, "quotaLimitReached", undefined, "no_space"],
  [400, "unheardOf", "maxFileSizeExceeded", "too_large"],
  [503, "itemNotFound", undefined, "throttled"],
  [401, "accessDenied", undefined, "unauthenticated"],
  [502, "unheardOf", undefined, "unavailable"],
  [418, "unheardOf", undefined, "protocol"],
  [404, "itemNotFound", "constructor", "not_found"],
])("%i %s %s is %s: the deepest code that is known decides", (status, code, inner, expected) => {
  for (const name of ["innererror", "innerError"]) {
    const body = { error: { code, message: "secret", [name]: inner ? { code: inner } : {} } };
    const error = toSluiceError({ status, headers: {}, body }, "graph: test");
    expect(error.code).toBe(expected);
    expect(inspect(error)).not.toContain("secret");
  }
});
