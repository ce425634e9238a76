import type { ObjectWriter } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { createBucket, failureOf, readAll } from "./bucket.ts";

const mebibyte = 1024 * 1024;
const part = new Uint8Array(8 * mebibyte);

describe("an object of one part", () => {
  test("is one request, and S3 keeps its SHA-256", async () => {
    await using bucket = await createBucket();
    const writer = await bucket.backend.write("a", { contentType: "text/plain" });
    await writer.write(Buffer.from("hello"));
    const info = await writer.commit();
    expect(bucket.standIn.requests.map(({ method }) => method)).toEqual(["PUT"]);
    const described = await bucket.backend.describe("a");
    expect(described).toMatchObject(info);
    expect(described.digests?.sha256).toMatch(/^2cf24dba5fb0a30e/);
  });

  test("is still one request at exactly a part", { tags: "slow" }, async () => {
    await using bucket = await createBucket();
    const writer = await bucket.backend.write("a");
    await writer.write(part.slice());
    await writer.commit();
    expect(bucket.standIn.requests.map(({ method }) => method)).toEqual(["PUT"]);
  });
});

describe("an object of several parts", () => {
  test(
    "is gathered into parts, the last of which may be small, and has no digest",
    { tags: "slow" },
    async () => {
      await using bucket = await createBucket({}, { keepUploads: false });
      const writer = await bucket.backend.write("a");
      for (let n = 0; n < 17; n++) await writer.write(new Uint8Array(mebibyte));
      const info = await writer.commit();
      expect(info).toEqual({ key: "a", size: 17 * mebibyte, etag: expect.stringMatching(/-3$/) });
      const lengths = bucket.standIn.requests
        .filter(({ url }) => url.includes("partNumber"))
        .map(({ headers }) => Number(headers["content-length"]));
      expect(lengths).toEqual([8 * mebibyte, 8 * mebibyte, mebibyte]);
      expect(await bucket.backend.describe("a")).not.toHaveProperty("digests");
    },
  );

  test(
    "has parts as large as 10,000 of them need for the declared size",
    { tags: "slow" },
    async () => {
      await using bucket = await createBucket({}, { keepUploads: false });
      const writer = await bucket.backend.write("a", { size: 160_000 * mebibyte });
      await writer.write(part.slice());
      await writer.write(part.slice());
      expect(bucket.standIn.requests).toEqual([]);
      await writer.write(part.slice());
      await expect.poll(() => bucket.standIn.countUploads()).toBe(1);
      await writer.abort();
      expect(bucket.standIn.countUploads()).toBe(0);
    },
  );

  test(
    "leaves no part behind: an abort, a disposal and a signal end it while a part is on its way",
    { tags: "slow" },
    async () => {
      const ends: ((writer: ObjectWriter, caller: AbortController) => PromiseLike<void>)[] = [
        (writer) => writer.abort(),
        (writer) => writer[Symbol.asyncDispose](),
        (writer, caller) => {
          caller.abort(new Error("enough"));
          return writer.abort();
        },
      ];
      for (const end of ends) {
        await using bucket = await createBucket({}, { keepUploads: false });
        const caller = new AbortController();
        const writer = await bucket.backend.write("a", { signal: caller.signal });
        // the first part never gets an answer
        bucket.standIn.faults.push({ on: /partNumber=1/, silent: true });
        await writer.write(part.slice());
        await writer.write(part.slice());
        await expect.poll(() => bucket.standIn.countUploads()).toBe(1);
        await end(writer, caller);
        expect(bucket.standIn.countUploads()).toBe(0);
        await expect.poll(() => bucket.standIn.countAnswering()).toBe(0);
      }
    },
  );

  test("is aborted when a part fails, and says so where it is written to next", async () => {
    await using bucket = await createBucket({}, { keepUploads: false });
    bucket.standIn.faults.push({
      on: /partNumber=1/,
      status: 503,
      code: "SlowDown",
      retryAfter: "3",
    });
    const writer = await bucket.backend.write("a");
    const error = await failureOf(
      (async () => {
        for (let n = 0; n < 4; n++) await writer.write(part.slice());
      })(),
    );
    expect([error["code"], error["retryAfterMs"]]).toEqual(["throttled", 3000]);
    expect(bucket.standIn.countUploads()).toBe(0);
    await expect(writer.write(part)).rejects.toBeInstanceOf(TypeError);
  });

  test(
    "is not there when S3 answers 200 and tells an error in the body",
    { tags: "slow" },
    async () => {
      await using bucket = await createBucket({}, { keepUploads: false });
      bucket.standIn.faults.push({ on: /^POST .*uploadId/, late: true });
      const writer = await bucket.backend.write("a");
      await writer.write(part.slice());
      await writer.write(Buffer.from("more"));
      await expect(writer.commit()).rejects.toMatchObject({ code: "unavailable" });
      expect(bucket.standIn.countUploads()).toBe(0);
      await expect(bucket.backend.describe("a")).rejects.toMatchObject({ code: "not_found" });
    },
  );

  test("is interrupted when ended from outside", async () => {
    await using bucket = await createBucket({}, { keepUploads: false });
    bucket.standIn.faults.push({ on: /^POST .*uploadId/, status: 404, code: "NoSuchUpload" });
    const writer = await bucket.backend.write("a");
    await writer.write(part.slice());
    await writer.write(Buffer.from("more"));
    await expect(writer.commit()).rejects.toMatchObject({ code: "interrupted" });
  });

  test.each([
    ["one part", mebibyte, /^PUT/],
    ["several parts", 9 * mebibyte, /^POST .*uploadId/],
  ])("an abort during the commit of %s rejects at once and leaves no part", async (_, size, on) => {
    await using bucket = await createBucket({}, { keepUploads: false });
    const caller = new AbortController();
    const reason = new Error("the caller's reason");
    bucket.standIn.faults.push({ on, silent: true });
    const writer = await bucket.backend.write("a", { signal: caller.signal });
    await writer.write(new Uint8Array(size));
    const committing = writer.commit();
    await expect
      .poll(() => bucket.standIn.requests.some(({ method, url }) => on.test(`${method} ${url}`)), {
        timeout: 10_000,
      })
      .toBe(true);
    caller.abort(reason);
    await expect(committing).rejects.toBe(reason);
    await writer.abort();
    expect(bucket.standIn.countUploads()).toBe(0);
  });

  test("starts no second one when it is aborted while it starts", { tags: "slow" }, async () => {
    await using bucket = await createBucket({}, { keepUploads: false });
    const caller = new AbortController();
    const reason = new Error("the caller's reason");
    const writer = await bucket.backend.write("a", { signal: caller.signal });
    await writer.write(part.slice());
    const writing = failureOf(writer.write(part.slice()).then(() => writer.write(part.slice())));
    caller.abort(reason);
    expect(await writing).toBe(reason);
    await writer.abort();
    expect(bucket.standIn.countUploads()).toBe(0);
  });
});

describe("a condition", () => {
  test("is looked at again by S3 when a large object is completed", { tags: "slow" }, async () => {
    await using bucket = await createBucket({}, { keepUploads: true });
    const writer = await bucket.backend.write("a", { ifAbsent: true });
    await writer.write(part.slice());
    await writer.write(Buffer.from("more"));
    bucket.standIn.put("a", Buffer.from("the winner"));
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
    expect(bucket.standIn.countUploads()).toBe(0);
    expect(String(await readAll((await bucket.backend.open("a")).body))).toBe("the winner");
  });

  test("is reported before anything is sent if it cannot be kept", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", Buffer.from("there"));
    for (const options of [{ ifAbsent: true }, { ifMatch: "another" }])
      await expect(bucket.backend.write("a", options)).rejects.toMatchObject({
        code: "precondition_failed",
      });
    await expect(bucket.backend.write("b", { ifMatch: "x" })).rejects.toMatchObject({
      code: "precondition_failed",
    });
    expect(bucket.standIn.requests.every(({ method }) => method === "HEAD")).toBe(true);
  });

  test.each([
    [409, "ConditionalRequestConflict"],
    [412, "PreconditionFailed"],
  ])("is precondition_failed when another write breaks it (%i)", async (status, code) => {
    await using bucket = await createBucket();
    const writer = await bucket.backend.write("a", { ifAbsent: true });
    bucket.standIn.faults.push({ on: /^PUT/, status, code });
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  });

  test("is precondition_failed, not not_found, for a version that was removed by then", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", Buffer.from("there"));
    const { etag = "" } = await bucket.backend.describe("a");
    const writer = await bucket.backend.write("a", { ifMatch: etag });
    bucket.standIn.remove("a");
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  });

  test("is unsupported if the server does not know it, and nothing is written", async () => {
    await using bucket = await createBucket();
    bucket.standIn.faults.push({ on: /^PUT/, status: 501, code: "NotImplemented" });
    const writer = await bucket.backend.write("a", { ifAbsent: true });
    await expect(writer.commit()).rejects.toMatchObject({ code: "unsupported" });
  });
});
