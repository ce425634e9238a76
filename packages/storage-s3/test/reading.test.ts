import { gunzipSync, gzipSync } from "node:zlib";
import { S3Client } from "@aws-sdk/client-s3";
import { flowOf } from "@sluice/core/internal";
import { withResumedReads } from "@sluice/storage/internal";
import { createS3Backend } from "@sluice/storage-s3";
import { describe, expect, test } from "vitest";
import { createBucket, failureOf, readAll, sparse } from "./bucket.ts";
import { checksumOf } from "./stand-in/checksum.ts";

const mebibyte = 1024 * 1024;
const content = Buffer.from("0123456789".repeat(1000));

describe("digests", () => {
  const sha256 = checksumOf("sha256", content) ?? "";
  const crc64nvme = checksumOf("crc64nvme", content) ?? "";

  test("are the checksums of whole objects that S3 keeps", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content, { checksums: { sha256, crc64nvme } });
    const digests = { sha256: Buffer.from(sha256, "base64").toString("hex"), crc64nvme };
    expect((await bucket.backend.describe("a")).digests).toEqual(digests);
    const { info, body } = await bucket.backend.open("a");
    await body.cancel();
    expect(info.digests).toEqual(digests);
  });

  test("are never made of a checksum of checksums", async () => {
    await using bucket = await createBucket();
    const checksums = { sha256: `${sha256}-3` };
    bucket.standIn.put("a", content, { checksums, checksumType: "COMPOSITE" });
    expect(await bucket.backend.describe("a")).not.toHaveProperty("digests");
    const { info, body } = await bucket.backend.open("a");
    expect(info).not.toHaveProperty("digests");
    expect((await readAll(body)).equals(content)).toBe(true);
  });

  test("are never the ETag, although it may be an MD5", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    expect(await bucket.backend.describe("a")).not.toHaveProperty("digests");
  });

  test("do not come with a range, whose bytes they do not describe", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content, { checksums: { sha256 } });
    const { info, body } = await bucket.backend.open("a", { range: { start: 5 } });
    expect(info).not.toHaveProperty("digests");
    expect((await readAll(body)).equals(content.subarray(5))).toBe(true);
    expect(bucket.standIn.requests.at(-1)?.headers).not.toHaveProperty("x-amz-checksum-mode");
  });
});

describe("a body", () => {
  test("comes packed if stored packed, and says so", async () => {
    await using bucket = await createBucket();
    const packed = gzipSync(content);
    bucket.standIn.put("a", packed, { contentEncoding: "gzip" });
    const { info, body } = await bucket.backend.open("a");
    expect([info.contentEncoding, info.size]).toEqual(["gzip", packed.length]);
    expect(gunzipSync(await readAll(body)).equals(content)).toBe(true);
  });

  test("does not name the framing of its upload as a coding", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content, { contentEncoding: "aws-chunked" });
    bucket.standIn.put("b", content, { contentEncoding: "gzip, aws-chunked" });
    expect(await bucket.backend.describe("a")).not.toHaveProperty("contentEncoding");
    expect((await bucket.backend.describe("b")).contentEncoding).toBe("gzip");
  });

  test("is interrupted when it breaks, and resumable continues with the same version", async () => {
    await using bucket = await createBucket();
    const large = Buffer.alloc(3 * mebibyte, "abcdefg");
    bucket.standIn.put("a", large);
    bucket.standIn.faults.push({ resetAfter: mebibyte });
    const { body } = await bucket.backend.open("a");
    const error = await failureOf(readAll(body));
    expect([error["code"], error.message]).toEqual([
      "interrupted",
      's3: open "a": the connection broke',
    ]);
    bucket.standIn.faults.push({ resetAfter: mebibyte });
    const resumed = await withResumedReads(bucket.backend).open("a");
    expect((await readAll(resumed.body)).equals(large)).toBe(true);
    const { headers } = bucket.standIn.requests.at(-1) ?? {};
    expect(headers?.["if-match"]).toMatch(/^"[0-9a-f]{32}"$/);
    expect(headers?.range).toMatch(/^bytes=\d+-3145727$/);
  });

  test("is also interrupted when it ends in order before its end", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    bucket.standIn.faults.push({ endAfter: 1000 });
    const { body } = await bucket.backend.open("a");
    await expect(readAll(body)).rejects.toMatchObject({ code: "interrupted" });
  });

  test(
    "keeps no other waiting while unread, however many there are, and closes when cancelled",
    { tags: "slow" },
    async () => {
      await using bucket = await createBucket();
      bucket.standIn.put("a", content);
      bucket.standIn.faults.push({ stallAfter: 1, times: 60 });
      const opened = [];
      // more than the 50 sockets of the SDK's own agent
      for (let n = 0; n < 60; n++) opened.push(await bucket.backend.open("a"));
      expect(bucket.standIn.countAnswering()).toBe(60);
      await bucket.backend.describe("a");
      await Promise.all(opened.map(({ body }) => body.cancel()));
      await expect.poll(() => bucket.standIn.countAnswering()).toBe(0);
    },
  );

  test("comes in larger chunks when read slowly", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", Buffer.alloc(32 * mebibyte));
    const reader = (await bucket.backend.open("a")).body.getReader();
    const next = async () => (await reader.read()).value?.byteLength;
    await expect.poll(next, { interval: 5 }).toBeGreaterThanOrEqual(128 * 1024);
    await reader.cancel();
  });

  test("leaves its connection to the next request when read to its end", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    const ports = new Set<string | undefined>();
    for (let n = 0; n < 5; n++) {
      await readAll((await bucket.backend.open("a")).body);
      ports.add(bucket.standIn.requests.at(-1)?.headers.connection);
    }
    expect([...ports]).toEqual(["keep-alive"]);
  });
});

describe("a range", () => {
  test("is refused when the server ignores it, unless it is the whole", async () => {
    await using bucket = await createBucket({}, { deviations: ["ignores-ranges"] });
    bucket.standIn.put("a", content);
    const open = (start: number, end?: number) =>
      bucket.backend.open("a", { range: { start, ...(end !== undefined && { end }) } });
    await expect(open(1)).rejects.toMatchObject({ code: "unsupported" });
    await expect(open(0, 10)).rejects.toMatchObject({ code: "unsupported" });
    await expect(open(content.length)).rejects.toMatchObject({ code: "range_not_satisfiable" });
    await expect.poll(() => bucket.standIn.countAnswering()).toBe(0);
    const { range, body } = await open(0);
    expect(range).toEqual({ start: 0, end: content.length });
    expect((await readAll(body)).equals(content)).toBe(true);
  });

  test("is empty without bytes if it lies inside, and asks nothing of GET", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    const { etag = "" } = await bucket.backend.describe("a");
    const range = { start: 3, end: 3 };
    const { body, info, ...opened } = await bucket.backend.open("a", { range, ifMatch: etag });
    expect([await readAll(body), info.size, opened.range]).toEqual([
      Buffer.alloc(0),
      content.length,
      range,
    ]);
    await expect(bucket.backend.open("a", { range, ifMatch: "x" })).rejects.toMatchObject({
      code: "precondition_failed",
    });
    const beyond = { start: content.length, end: content.length };
    await expect(bucket.backend.open("a", { range: beyond })).rejects.toMatchObject({
      code: "range_not_satisfiable",
    });
  });

  test("tells the size beyond the end, even if the server does not", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    const open = () => bucket.backend.open("a", { range: { start: content.length } });
    const expected = { code: "range_not_satisfiable", size: content.length };
    await expect(open()).rejects.toMatchObject(expected);
    expect(bucket.standIn.requests.length).toBe(1);
    bucket.standIn.faults.push({ status: 416, code: "InvalidRange" });
    await expect(open()).rejects.toMatchObject(expected);
  });

  test("is not satisfiable for an empty object, and the error tells its size", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", new Uint8Array());
    await expect(bucket.backend.open("a", { range: { start: 0 } })).rejects.toMatchObject({
      code: "range_not_satisfiable",
      size: 0,
    });
  });
});

describe("versions", () => {
  test("are also compared here: another version is refused where the server ignores If-Match", async () => {
    await using bucket = await createBucket({}, { deviations: ["ignores-read-conditions"] });
    bucket.standIn.put("a", content);
    await expect(bucket.backend.open("a", { ifMatch: "another" })).rejects.toMatchObject({
      code: "precondition_failed",
    });
    await expect.poll(() => bucket.standIn.countAnswering()).toBe(0);
  });

  test("go to S3 in quotes and come without them", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    const { etag = "" } = await bucket.backend.describe("a");
    expect(etag).toMatch(/^[0-9a-f]{32}$/);
    await (await bucket.backend.open("a", { ifMatch: etag })).body.cancel();
    expect(bucket.standIn.requests.at(-1)?.headers["if-match"]).toBe(`"${etag}"`);
  });
});

describe("an object in an archive", () => {
  test("is unsupported, not forbidden, to describe and to open", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content, { storageClass: "DEEP_ARCHIVE" });
    for (const work of [bucket.backend.describe("a"), bucket.backend.open("a")])
      await expect(work).rejects.toMatchObject({ code: "unsupported" });
  });
});

test("requests are signed for the region, even with an endpoint", async () => {
  const region = "eu-west-1";
  await using bucket = await createBucket({ region }, { region });
  bucket.standIn.put("a", content);
  expect((await bucket.backend.describe("a")).size).toBe(content.length);
  const { bucket: name, endpoint, credentials } = bucket.standIn;
  const elsewhere = createS3Backend({ bucket: name, endpoint, credentials });
  await expect(elsewhere.describe("a")).rejects.toMatchObject({ code: "unauthenticated" });
  await elsewhere.close?.();
});

describe("a client of one's own", () => {
  test("is used and left open", async () => {
    await using bucket = await createBucket();
    const { standIn } = bucket;
    standIn.put("a", content);
    const client = new S3Client({
      endpoint: standIn.endpoint,
      region: standIn.region,
      credentials: standIn.credentials,
      forcePathStyle: true,
      maxAttempts: 1,
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
    });
    const backend = createS3Backend({ bucket: standIn.bucket, client });
    await backend.describe("a");
    await backend.close?.();
    expect((await readAll((await backend.open("a")).body)).equals(content)).toBe(true);
    client.destroy();
  });

  test("has its own connections, from which nothing is lent", { tags: "slow" }, async () => {
    await using bucket = await createBucket();
    const { standIn } = bucket;
    standIn.put("large", sparse(16 * mebibyte));
    const client = new S3Client({
      endpoint: standIn.endpoint,
      region: standIn.region,
      credentials: standIn.credentials,
      forcePathStyle: true,
      maxAttempts: 1,
      requestChecksumCalculation: "WHEN_REQUIRED",
      responseChecksumValidation: "WHEN_REQUIRED",
    });
    const backends = [createS3Backend({ bucket: standIn.bucket, client }), bucket.backend];
    const lent = [0, 0];
    for (const [index, backend] of backends.entries()) {
      const { body } = await backend.open("large");
      await flowOf(body).pump(
        (chunk, release) => {
          if (release) lent[index]! += chunk.length;
          release?.();
        },
        { blocks: 2, blockBytes: mebibyte },
      );
    }
    expect(lent[0]).toBe(0);
    expect(lent[1]).toBeGreaterThan(0);
    client.destroy();
  });

  test("is refused by name of the setting if it repeats or checks by itself", async () => {
    await using bucket = await createBucket();
    const { standIn } = bucket;
    const client = new S3Client({
      endpoint: standIn.endpoint,
      region: standIn.region,
      credentials: standIn.credentials,
    });
    const error = await failureOf(createS3Backend({ bucket: "b", client }).describe("a"));
    expect([error["code"], error.message]).toEqual([
      "invalid_argument",
      "s3: the client has maxAttempts 3; create it with maxAttempts: 1",
    ]);
    expect(standIn.requests).toEqual([]);
    client.destroy();
  });
});
