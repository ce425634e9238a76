import { createS3Backend } from "@sluice/storage-s3";
import { describe, expect, test } from "vitest";
import { createBucket } from "./bucket.ts";

const minute = 60_000;
const content = Buffer.from("0123456789");

describe("a signed URL", () => {
  test("signs the host and nothing that a client would have to send", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    const { url = "" } = (await bucket.backend.presign("a", { expiresInMs: minute })) ?? {};
    const { searchParams } = new URL(url);
    expect(searchParams.get("X-Amz-SignedHeaders")).toBe("host");
    expect([...searchParams.keys()].filter((name) => /checksum|range|match/i.test(name))).toEqual(
      [],
    );
    const etag = (await bucket.backend.describe("a")).etag ?? "";
    for (const headers of [{}, { range: "bytes=1-" }, { "if-match": `"${etag}"` }]) {
      const response = await fetch(url, { headers });
      expect(response.ok).toBe(true);
      await response.text();
    }
  });

  test.each([
    ["acme", "https://acme.s3.eu-west-1.amazonaws.com"],
    // a name with a dot does not fit into a certificate
    ["acme.files", "https://s3.eu-west-1.amazonaws.com"],
  ])("has the origin that the backend names, for the bucket %s", async (bucket, origin) => {
    const credentials = { accessKeyId: "id", secretAccessKey: "secret" };
    const backend = createS3Backend({ bucket, region: "eu-west-1", credentials, prefix: "a" });
    expect(await backend.presignOrigins?.()).toEqual([origin]);
    const { url = "" } = (await backend.presign?.("a", { expiresInMs: minute })) ?? {};
    expect(new URL(url).origin).toBe(origin);
    await backend.close?.();
  });

  test("lives seven days at most", async () => {
    await using bucket = await createBucket();
    const start = Date.now();
    const presigned = await bucket.backend.presign("a", { expiresInMs: 30 * 24 * 60 * minute });
    expect(new URL(presigned?.url ?? "").searchParams.get("X-Amz-Expires")).toBe("604800");
    expect(presigned?.expiresAt).toBeLessThanOrEqual(Date.now() + 604_800_000);
    expect(presigned?.expiresAt).toBeGreaterThan(start + 604_700_000);
  });

  test("expires no later than the credentials that signed it, and is absent when they have", async () => {
    await using bucket = await createBucket();
    const { bucket: name, endpoint, credentials } = bucket.standIn;
    for (const [leftMs, least, most] of [
      [30 * minute, 29 * minute, 30 * minute],
      [-1000, undefined, undefined],
    ] as const) {
      const start = Date.now();
      const expiration = new Date(start + leftMs);
      const provider = async () => ({ ...credentials, sessionToken: "t", expiration });
      const backend = createS3Backend({ bucket: name, endpoint, credentials: provider });
      const presigned = await backend.presign?.("a", { expiresInMs: 60 * minute });
      const lifeMs = presigned && presigned.expiresAt - start;
      expect(lifeMs === undefined || lifeMs > (least ?? Infinity)).toBe(true);
      expect(lifeMs === undefined ? undefined : lifeMs <= most!).toBe(most && true);
      await backend.close?.();
    }
  });

  test("is absent when its answer could not have the requested headers", async () => {
    await using bucket = await createBucket();
    const expiresInMs = minute;
    for (const options of [
      { contentDisposition: 'attachment; filename="€.bin"' },
      { contentType: "text/plain\r\nset-cookie: a=b" },
      { contentType: "" },
    ])
      expect(await bucket.backend.presign("a", { expiresInMs, ...options })).toBeUndefined();
    expect(await bucket.backend.presign("a", { expiresInMs: 400 })).toBeUndefined();
  });

  test("is made without a request", async () => {
    await using bucket = await createBucket();
    await bucket.backend.presign("missing", { expiresInMs: minute });
    expect(bucket.standIn.requests).toEqual([]);
  });

  test("leads to its object for every legal key, even through a parser of URLs", async () => {
    await using bucket = await createBucket({ prefix: "in here/+%" });
    for (const key of ["a b", "%2e%2e/x", "a+b&c=d", "(1)!*'", "…/😀", "a;b,c@d:e$f"]) {
      bucket.standIn.put(`in here/+%/${key}`, Buffer.from(key));
      const { url = "" } = (await bucket.backend.presign(key, { expiresInMs: minute })) ?? {};
      expect(new URL(url).href).toBe(url);
      expect(await (await fetch(url)).text()).toBe(key);
    }
  });
});

describe("a browser", () => {
  test("reads a range through a signed URL where the rule of the bucket allows its origin", async () => {
    await using bucket = await createBucket({}, { corsOrigins: ["https://app.example"] });
    bucket.standIn.put("a", content);
    const { url = "" } = (await bucket.backend.presign("a", { expiresInMs: minute })) ?? {};
    const get = (origin: string) => fetch(url, { headers: { origin, range: "bytes=0-1" } });
    const allowed = await get("https://app.example");
    expect([allowed.status, await allowed.text()]).toEqual([206, "01"]);
    expect(allowed.headers.get("access-control-allow-origin")).toBe("https://app.example");
    const other = await get("https://other.example");
    await other.text();
    expect(other.headers.get("access-control-allow-origin")).toBe(null);
  });
});
