import { createHash } from "node:crypto";
import { describe, expect, test, vi } from "vitest";
import type { Scan } from "@sluice/uploads";
import { matchClaims } from "../src/confirm/match-claims.ts";
import {
  alice,
  bearer,
  bob,
  noise,
  startUploadServer,
  type UploadServer,
} from "./upload-server.ts";

const bytes = noise(4_321);
const claim = {
  name: "a b.bin",
  size: bytes.length,
  mimeType: "application/octet-stream",
  sha256: createHash("sha256").update(bytes).digest("hex"),
};

async function sent(server: UploadServer, count = 1): Promise<string> {
  const { url, uploadId } = await server.slot({ maxFiles: count });
  for (let at = 0; at < count; at++) {
    const headers = {
      ...bearer("alice"),
      "content-disposition": `inline; filename="${claim.name}"`,
    };
    expect((await fetch(url, { method: "PUT", headers, body: bytes })).status).toBe(201);
  }
  return uploadId;
}

describe("an answer that disagrees with what came is refused, and nothing is kept", () => {
  test.for<[string, object[]]>([
    ["digest", [{ ...claim, sha256: "0".repeat(64) }]],
    ["size", [{ ...claim, size: 4_322 }]],
    ["name", [{ ...claim, name: "b.bin" }]],
    ["type", [{ ...claim, mimeType: "image/png" }]],
    ["a file that never came", [claim, claim]],
    ["no file", []],
  ])("%s", async ([, claims]) => {
    const server = await startUploadServer();
    const uploadId = await sent(server);
    await expect(server.uploads.confirm(alice, uploadId, claims as never)).rejects.toMatchObject({
      code: "precondition_failed",
    });
    expect(await server.files()).toEqual([]);
  });
});

test("the upload of another principal does not exist, and stays as it is", async () => {
  const server = await startUploadServer();
  const uploadId = await sent(server);
  for (const principal of [bob, undefined, { ...alice, issuer: "https://other.example" }])
    for (const work of [
      () => server.uploads.confirm(principal, uploadId, [claim]),
      () => server.uploads.received(principal, uploadId),
      () => server.uploads.reopen(principal, uploadId),
    ])
      await expect(work()).rejects.toMatchObject({ code: "not_found" });
  expect(
    await server.uploads.confirm({ ...alice, sessionId: "s" }, uploadId, [claim]),
  ).toHaveLength(1);
});

test("one of many concurrent confirmations succeeds", async () => {
  const server = await startUploadServer();
  const uploadId = await sent(server);
  const tries = await Promise.allSettled(
    Array.from({ length: 20 }, () => server.uploads.confirm(alice, uploadId, [claim])),
  );
  expect(tries.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
  const codes = tries.flatMap((tried) => (tried.status === "rejected" ? [tried.reason.code] : []));
  expect(new Set(codes)).toEqual(new Set(["already_exists"]));
});

test("a confirmed file can be opened again until it is removed, and is then gone for good", async () => {
  const server = await startUploadServer();
  const uploadId = await sent(server, 2);
  await expect(server.uploads.reopen(alice, uploadId)).rejects.toMatchObject({ code: "not_found" });
  const files = await server.uploads.confirm(alice, uploadId, [claim, claim]);
  expect(files).toHaveLength(2);
  await files[0]!.remove();
  await files[0]!.remove();
  await expect(files[0]!.open()).rejects.toMatchObject({ code: "not_found" });
  const again = await server.uploads.reopen(alice, uploadId);
  expect(again).toMatchObject([{ ...claim, scan: "unscanned" }]);
  await again[0]!.remove();
  await expect(server.uploads.reopen(alice, uploadId)).rejects.toMatchObject({ code: "not_found" });
});

test("a file that came inside a message is taken like one that was sent", async () => {
  const server = await startUploadServer({ uploads: { limits: { files: { perPrincipal: 1 } } } });
  const terms = { accept: ["text/*"], maxBytes: 5, maxFiles: 1 };
  const text = { mimeType: "text/plain", bytes: new TextEncoder().encode("hello") };
  const file = await server.uploads.keep(alice, text, terms);
  expect(await new Response((await file.open()).body).text()).toBe("hello");
  await expect(server.uploads.keep(alice, text, terms)).rejects.toMatchObject({ code: "no_space" });
  await file.remove();
  const long = { ...text, bytes: new Uint8Array(6) };
  await expect(server.uploads.keep(alice, long, terms)).rejects.toMatchObject({
    code: "too_large",
  });
});

test.each(["refuse", "remove"] as const)(
  "a file that becomes whole while its upload is confirmed is not kept beside the named ones (%s)",
  async (unnamed) => {
    let scans = 0;
    const server = await startUploadServer({
      uploads: {
        limits: { files: { perPrincipal: 2 } },
        async scan() {
          scans += 1;
          if (scans === 1) return "defer";
          // of the second look at the first file
          if (scans === 2) await put("late.bin");
          return "clean";
        },
      },
    });
    const { url, uploadId } = await server.slot({ maxFiles: 2 });
    const put = async (name: string): Promise<void> => {
      const headers = { ...bearer("alice"), "content-disposition": `inline; filename="${name}"` };
      expect((await fetch(url, { method: "PUT", headers, body: bytes })).status).toBe(201);
    };
    await put(claim.name);
    const [file] = await server.uploads.confirm(alice, uploadId, [claim], { unnamed });
    expect(scans).toBe(3);
    expect(await server.uploads.reopen(alice, uploadId)).toMatchObject([claim]);
    // bytes, record and marker
    expect(await server.files()).toHaveLength(3);
    expect((await file!.open()).info.size).toBe(bytes.length);
    // its place in the quota is free again
    const other = await server.slot();
    const init = { method: "PUT", headers: bearer("alice"), body: bytes };
    expect((await fetch(other.url, init)).status).toBe(201);
  },
);

describe("a scanner", () => {
  const upload = async (scan: Scan) => {
    const server = await startUploadServer({ uploads: { scan } });
    const { url, uploadId } = await server.slot();
    const headers = {
      ...bearer("alice"),
      "content-disposition": `inline; filename="${claim.name}"`,
    };
    return { server, uploadId, answer: await fetch(url, { method: "PUT", headers, body: bytes }) };
  };

  test("sees all bytes before they can be read", async () => {
    let seen = Buffer.alloc(0);
    const { server, uploadId } = await upload(async (body, facts) => {
      seen = Buffer.from(
        await new Response(body as ReadableStream<Uint8Array<ArrayBuffer>>).arrayBuffer(),
      );
      expect(facts).toMatchObject({ size: 4_321, sha256: claim.sha256 });
      return "clean" as const;
    });
    expect(seen.equals(bytes)).toBe(true);
    expect(await server.uploads.confirm(alice, uploadId, [claim])).toMatchObject([
      { scan: "clean" },
    ]);
  });

  test("leaves nothing of a file that it rejects", async () => {
    const { server, answer } = await upload(() => "reject");
    expect(answer.status).toBe(403);
    expect(await server.files()).toEqual([]);
  });

  test("is asked again at confirmation if it has not decided, or failed", async () => {
    const scan = vi.fn<() => "defer" | "clean">(() => "defer");
    scan.mockImplementationOnce(() => {
      throw new Error("scanner down");
    });
    const { server, uploadId, answer } = await upload(scan);
    expect(answer.status).toBe(201);
    expect(server.errors).toMatchObject([{ message: "scanner down" }]);
    await expect(server.uploads.confirm(alice, uploadId, [claim])).rejects.toMatchObject({
      code: "unavailable",
    });
    scan.mockReturnValue("clean");
    expect(await server.uploads.confirm(alice, uploadId, [claim])).toMatchObject([
      { scan: "clean" },
    ]);
  });

  test("is missing only where that was said", async () => {
    await expect(startUploadServer({ uploads: { scan: undefined as never } })).rejects.toThrow(
      /pass scan/,
    );
  });
});

test("claims are matched one to one", () => {
  const stored = { fileId: "A".repeat(32), place: 0, scan: "clean" } as const;
  const file = { ...claim, ...stored, declaredType: "application/x-thing; a=b" };
  const counts = (...[files, claims]: Parameters<typeof matchClaims>) => {
    const { matched, unmatched } = matchClaims(files, claims) ?? {};
    return matched && { matched: matched.length, unmatched: unmatched?.length };
  };
  expect(counts([file, file], [claim, claim])).toEqual({ matched: 2, unmatched: 0 });
  expect(counts([file], [{ ...claim, mimeType: "Application/X-Thing" }])).toEqual({
    matched: 1,
    unmatched: 0,
  });
  // a broken twin that lets one claim stand for two files would leave none here
  expect(counts([file, file], [claim])).toEqual({ matched: 1, unmatched: 1 });
  expect(counts([file], [claim, claim])).toBeUndefined();
  expect(counts([file], [])).toBeUndefined();
  const { sha256: _known, ...undigested } = claim;
  expect(counts([file], [undigested])).toEqual({ matched: 1, unmatched: 0 });
});
