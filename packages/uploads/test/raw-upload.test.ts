import { createHash } from "node:crypto";
import { SluiceError, tokenLifetimes } from "@sluice/core";
import type { StorageBackend } from "@sluice/storage";
import { describe, expect, test, vi } from "vitest";
import {
  alice,
  bearer,
  bob,
  noise,
  png,
  startUploadServer,
  type UploadServer,
} from "./upload-server.ts";

const digestOf = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");
const reprDigest = (bytes: Uint8Array): string =>
  `sha-256=:${createHash("sha256").update(bytes).digest("base64")}:`;
const named = (name: string): Record<string, string> => ({
  "content-disposition": `attachment; filename="${name}"`,
});

function put(
  url: string,
  body: string | Uint8Array<ArrayBuffer>,
  headers: Record<string, string> = {},
): Promise<Response> {
  return fetch(url, { method: "PUT", headers: { ...bearer("alice"), ...headers }, body });
}

/** A refusal is a problem, and nothing of the file is on disk. */
async function expectRefused(
  server: UploadServer,
  answer: Response,
  status: number,
): Promise<void> {
  const text = await answer.text();
  expect([answer.status, text]).toEqual([status, expect.stringContaining('"status":')]);
  expect(answer.headers.get("content-type")).toBe("application/problem+json");
  await expect.poll(() => server.files()).toEqual([]);
}

test("a file that was sent raw and confirmed can be read, byte for byte", async () => {
  const { slot, uploads, records } = await startUploadServer();
  const { url, uploadId } = await slot();
  const bytes = noise(3_000_000);
  const sha256 = digestOf(bytes);
  const answer = await put(url, bytes, { ...named("a.bin"), "repr-digest": reprDigest(bytes) });
  expect(answer.status).toBe(201);
  expect(answer.headers.get("repr-digest")).toBe(reprDigest(bytes));
  const facts = { name: "a.bin", size: 3_000_000, mimeType: "application/octet-stream", sha256 };
  expect(await answer.json()).toMatchObject({ uploadId, status: "completed", ...facts });
  const [file] = await uploads.confirm(alice, uploadId, [facts]);
  expect(file).toMatchObject({ uploadId, ...facts, scan: "unscanned" });
  const { body } = await file!.open();
  expect(Buffer.from(await new Response(body).arrayBuffer()).equals(bytes)).toBe(true);
  expect(records).toMatchObject([
    { action: "upload", step: "reserve", outcome: "issued", grant: uploadId },
    { action: "upload", step: "receive", outcome: "complete", bytes: 3_000_000, grant: uploadId },
    { action: "upload", step: "confirm", outcome: "complete", bytes: 3_000_000, grant: uploadId },
  ]);
  expect(new Set(records.map(({ principal }) => principal)).size).toBe(1);
});

test("a file may be empty, and come in chunks without a length", async () => {
  const { slot, uploads } = await startUploadServer();
  const empty = await slot();
  expect((await put(empty.url, "")).status).toBe(201);
  const claim = { name: "n", size: 0, mimeType: "application/octet-stream" };
  expect(await uploads.confirm(alice, empty.uploadId, [claim])).toMatchObject([
    { size: 0, name: "n" },
  ]);
  const chunked = await slot();
  const body = new Blob([noise(100_000)]).stream();
  const init = { method: "POST", headers: bearer("alice"), body, duplex: "half" } as RequestInit;
  expect(await (await fetch(chunked.url, init)).json()).toMatchObject({ size: 100_000 });
});

test("the endpoint takes web streams on a runtime without node:http", async () => {
  const { slot, handler, uploads } = await startUploadServer();
  const { url, uploadId } = await slot();
  const request = new Request(url, {
    method: "PUT",
    headers: bearer("alice"),
    body: noise(70_000),
  });
  const answer = await handler.fetch(request);
  expect([answer.status, await answer.json()]).toMatchObject([201, { size: 70_000 }]);
  expect(uploads.progress(uploadId)).toEqual({ bytes: 70_000 });
});

test("progress is what the endpoint has received, and its file and digest when it is whole", async () => {
  const { slot, uploads } = await startUploadServer();
  const { url, uploadId } = await slot();
  expect(uploads.progress(uploadId)).toEqual({ bytes: 0 });
  await put(url, noise(1_000), named("p.bin"));
  expect(uploads.progress(uploadId)).toEqual({ bytes: 1_000, totalBytes: 1_000 });
  const overview = await fetch(url, { headers: bearer("alice") });
  expect(await overview.json()).toMatchObject({
    uploadId,
    status: "stored",
    received: 1_000,
    total: 1_000,
    files: [{ name: "p.bin", size: 1_000 }],
  });
});

test.each<[string, number, number, BodyOf, Record<string, string>]>([
  ["of 6 MB beyond 5 MB", 413, 5_000_000, (bytes) => bytes, {}],
  ["in chunks beyond 5 MB", 413, 5_000_000, (bytes) => new Blob([bytes]).stream(), {}],
  ["of a wrong type", 415, 9_000_000, (bytes) => bytes, named("a.pdf")],
])(
  "a sender that still writes a file %s receives the %i every time",
  async (_what, status, maxBytes, bodyOf, headers) => {
    const { slot } = await startUploadServer();
    const { url } = await slot({ maxBytes, accept: ["image/*"] });
    const bytes = png(6_000_000);
    const outcomes = new Set<number | string>();
    for (let turn = 0; turn < 15; turn++) {
      const init = { method: "PUT", headers: { ...bearer("alice"), ...headers }, duplex: "half" };
      const outcome = fetch(url, { ...init, body: bodyOf(bytes) } as RequestInit).then(
        (answer) => answer.status,
        (error: Error) => String(error.cause),
      );
      outcomes.add(await outcome);
    }
    expect([...outcomes]).toEqual([status]);
  },
);

type BodyOf = (bytes: Uint8Array<ArrayBuffer>) => RequestInit["body"];

describe("refused, and nothing is kept", () => {
  test("a file whose digest is not the announced one", async () => {
    const server = await startUploadServer();
    const wrong = { "repr-digest": reprDigest(noise(9)) };
    await expectRefused(server, await put((await server.slot()).url, noise(100_000), wrong), 422);
    const malformed = { "repr-digest": "sha-256=:AAAA:" };
    await expectRefused(
      server,
      await put((await server.slot()).url, noise(100_000), malformed),
      400,
    );
  });

  test("a file whose content digest is not the announced one (RFC 9530 §2)", async () => {
    const server = await startUploadServer();
    const bytes = noise(100_000);
    const wrong = { "content-digest": reprDigest(noise(9)) };
    await expectRefused(server, await put((await server.slot()).url, bytes, wrong), 422);
    const malformed = { "content-digest": "sha-256=:AAAA:" };
    await expectRefused(server, await put((await server.slot()).url, bytes, malformed), 400);
    const contrary = { ...wrong, "repr-digest": reprDigest(bytes) };
    await expectRefused(server, await put((await server.slot()).url, bytes, contrary), 400);
    const right = { "content-digest": reprDigest(bytes) };
    expect((await put((await server.slot()).url, bytes, right)).status).toBe(201);
  });

  test("a file whose type is not the declared one, or is not accepted", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot({ accept: ["image/*"] });
    await expectRefused(server, await put(url, noise(9_000), { "content-type": "image/png" }), 415);
    await expectRefused(server, await put(url, png(9_000), { "content-type": "image/gif" }), 415);
    await expectRefused(server, await put(url, png(9_000), named("a.pdf")), 415);
    await expectRefused(server, await put(url, noise(9_000)), 415);
    expect(
      (await put(url, png(9_000), { "content-type": "image/png", ...named("a.png") })).status,
    ).toBe(201);
  });

  test("a file that is larger than the slot, announced or not", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot({ maxBytes: 50_000 });
    const announced = await put(url, noise(50_001));
    expect(announced.headers.get("upload-limit")).toMatch(/^max-size=50000, max-age=\d+$/);
    await expectRefused(server, announced, 413);
    const body = new Blob([noise(3_000_000)]).stream();
    const init = { method: "PUT", headers: bearer("alice"), body, duplex: "half" } as RequestInit;
    const counted = await fetch(url, init).catch(() => undefined);
    // a client that goes on sending may find the connection closed before the answer
    if (counted) await expectRefused(server, counted, 413);
    await expect.poll(() => server.files()).toEqual([]);
    expect((await server.slot({ maxBytes: 10 ** 12 })).terms.maxBytes).toBe(100 * 2 ** 20);
  });

  test("an upload of another principal, of no principal, or with an invalid token", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    const as = (headers: Record<string, string>, to = url): Promise<Response> =>
      fetch(to, { method: "PUT", headers, body: noise(5_000) });
    await expectRefused(server, await as(bearer("bob")), 404);
    await expectRefused(server, await as({}), 401);
    const slash = url.lastIndexOf("/") + 1;
    const other = `${url.slice(0, -1)}${url.endsWith("A") ? "B" : "A"}`;
    for (const bad of [other, `${url.slice(0, slash)}x`, url.slice(0, slash)])
      await expectRefused(server, await as(bearer("alice"), bad), 404);
    const download = server.url.replace("/mcp", "/mcp/streams/") + url.slice(slash);
    expect((await fetch(download, { headers: bearer("alice") })).status).toBe(404);
  });

  test("an upload to an expired slot", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    vi.spyOn(Date, "now").mockReturnValue(Date.now() + tokenLifetimes.upload.bound.ttlMs + 120_000);
    const answer = await put(url, noise(5_000)).finally(() => vi.restoreAllMocks());
    await expectRefused(server, answer, 410);
  });

  test("a range of a file, which is 400 (RFC 9110 §14.4)", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    const range = { "content-range": "bytes 0-499/9000" };
    for (const method of ["PUT", "POST"]) {
      const headers = { ...bearer("alice"), ...range, "content-type": "application/octet-stream" };
      const answer = await fetch(url, { method, headers, body: noise(500) });
      expect(await answer.clone().json()).toMatchObject({
        detail: expect.stringContaining("Upload-Offset") as string,
      });
      await expectRefused(server, answer, 400);
    }
  });

  test("encoded bodies", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    await expectRefused(server, await put(url, noise(500), { "content-encoding": "gzip" }), 415);
    await expectRefused(server, await put(url, noise(500), { "content-type": "no type" }), 400);
  });

  test("other hosts, origins, sites and methods", async () => {
    const server = await startUploadServer();
    const { url } = await server.slot();
    await expectRefused(
      server,
      await put(url, noise(500), { origin: "https://evil.example" }),
      403,
    );
    const self = await server.uploads.reserve(
      alice,
      { accept: [], maxBytes: 1_000, maxFiles: 1 },
      { selfAuthenticating: true },
    );
    const from = (site: string): Promise<Response> =>
      server.handler.fetch(
        new Request(self.url, { method: "PUT", headers: { "sec-fetch-site": site }, body: "abc" }),
      );
    await expectRefused(server, await from("cross-site"), 403);
    await expectRefused(server, await from("same-site"), 403);
    expect((await from("same-origin")).status).toBe(201);
    const wrongMethod = await fetch(url, { method: "DELETE", headers: bearer("alice") });
    expect([wrongMethod.status, wrongMethod.headers.get("allow")]).toEqual([
      405,
      "POST, PUT, GET, OPTIONS",
    ]);
  });

  test("a second file for the URL of the first", async () => {
    const server = await startUploadServer();
    const { url, uploadId } = await server.slot();
    const bytes = noise(5_000);
    expect((await put(url, bytes)).status).toBe(201);
    const before = (await server.files()).length;
    expect((await put(url, bytes)).status).toBe(409);
    expect(await server.files()).toHaveLength(before);
    const claim = { name: "a", size: 5_000, mimeType: "application/octet-stream" };
    const [file] = await server.uploads.confirm(alice, uploadId, [claim]);
    expect((await put(url, bytes)).status).toBe(409);
    await file!.remove();
    // the marker stays for as long as the slot could be used
    expect((await put(url, bytes)).status).toBe(409);
  });
});

test("a fault of storage tells the sender nothing, whatever its message begins with", async () => {
  const fault = new SluiceError(
    "permission_denied",
    "uploads: write: the bucket acme is read-only",
  );
  const wrap = (backend: StorageBackend): StorageBackend => ({
    ...backend,
    write: () => Promise.reject(fault),
  });
  const server = await startUploadServer({ wrap });
  const init = { method: "PUT", headers: bearer("alice"), body: noise(10) };
  const answer = await fetch((await server.slot()).url, init);
  expect(answer.ok).toBe(false);
  expect(await answer.text()).not.toMatch(/acme|bucket/);
});

test("two concurrent uploads to one slot are one file", async () => {
  const server = await startUploadServer();
  const { url, uploadId } = await server.slot();
  const answers = await Promise.all([put(url, noise(80_000)), put(url, noise(90_000))]);
  expect(answers.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([201, 409]);
  expect(await server.uploads.received(alice, uploadId)).toHaveLength(1);
  // its bytes and its record
  expect(await server.files()).toHaveLength(2);
});

test("a slot with impossible terms is refused", async () => {
  const { uploads } = await startUploadServer();
  const terms = { accept: [], maxBytes: 1, maxFiles: 1 };
  for (const wrong of [
    { maxBytes: 0 },
    { maxFiles: 0 },
    { maxFiles: 101 },
    { accept: Array<string>(99).fill("application/x-a") },
  ])
    await expect(uploads.reserve(alice, { ...terms, ...wrong })).rejects.toThrow(RangeError);
  for (const accept of ["png", "image/", "../x", ".a/b"])
    await expect(uploads.reserve(alice, { ...terms, accept: [accept] })).rejects.toThrow(TypeError);
  await expect(uploads.received(bob, "../../etc")).rejects.toMatchObject({ code: "not_found" });
});
