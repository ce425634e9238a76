import { inspect } from "node:util";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { withThrottle } from "@sluice/storage/internal";
import { createS3Backend } from "@sluice/storage-s3";
import { describe, expect, test } from "vitest";
import { createBucket, failureOf, readAll, sparse } from "./bucket.ts";

// Some surprises of S3 cannot come up: no read asks with If-None-Match, so none is answered with 304; no
// version is named, so a delete marker is just 404; nothing but GET is signed; the SDK checks no checksums.

const content = Buffer.from("0123456789");
/** Time of an abort on a busy machine. */

describe("an answer of S3", () => {
  test.each<[number, string, SluiceErrorCode]>([
    [400, "ExpiredToken", "unauthenticated"],
    [400, "AuthorizationHeaderMalformed", "unauthenticated"],
    [400, "InvalidRequest", "unsupported"],
    [400, "KeyTooLongError", "invalid_argument"],
    [301, "PermanentRedirect", "unauthenticated"],
    [401, "Unauthorized", "unauthenticated"],
    [403, "AccessDenied", "permission_denied"],
    [403, "InvalidAccessKeyId", "unauthenticated"],
    [403, "SignatureDoesNotMatch", "unauthenticated"],
    [403, "RequestTimeTooSkewed", "unauthenticated"],
    [403, "InvalidObjectState", "unsupported"],
    [403, "QuotaExceeded", "no_space"],
    [400, "XMinioAdminBucketQuotaExceeded", "no_space"],
    [404, "NoSuchKey", "not_found"],
    [404, "NoSuchBucket", "not_found"],
    [405, "MethodNotAllowed", "unsupported"],
    [409, "ConditionalRequestConflict", "precondition_failed"],
    [409, "OperationAborted", "unavailable"],
    [412, "PreconditionFailed", "precondition_failed"],
    [429, "TooManyRequests", "throttled"],
    [500, "InternalError", "unavailable"],
    [501, "NotImplemented", "unsupported"],
    [503, "SlowDown", "throttled"],
    [503, "ServiceUnavailable", "unavailable"],
    [507, "XMinioStorageFull", "no_space"],
    [404, "constructor", "not_found"],
  ])("%i %s is %s, asked once", async (status, code, expected) => {
    await using bucket = await createBucket();
    bucket.standIn.faults.push({ status, code, times: 10 });
    const error = await failureOf(bucket.backend.open("a"));
    expect([error["code"], SluiceError.is(error)]).toEqual([expected, true]);
    expect(error.message).toMatch(new RegExp(`^s3: open "a": .+ \\(${status} ${code}\\)$`));
    expect(bucket.standIn.requests.length).toBe(1);
  });

  test.each<[number, SluiceErrorCode]>([
    [301, "unauthenticated"],
    [400, "unauthenticated"],
    [403, "permission_denied"],
    [404, "not_found"],
    [405, "unsupported"],
    [412, "precondition_failed"],
    [429, "throttled"],
    [500, "unavailable"],
  ])("%i to a HEAD, which comes without a code, is %s", async (status, expected) => {
    await using bucket = await createBucket();
    bucket.standIn.faults.push({ status, code: "NotSaid", times: 10 });
    const error = await failureOf(bucket.backend.describe("a"));
    expect(error["code"]).toBe(expected);
    expect(error.message).toMatch(new RegExp(`\\(${status}\\)$`));
  });

  test("503 to a HEAD is throttled when S3 asks to slow down, and an outage otherwise", async () => {
    await using bucket = await createBucket();
    const { faults } = bucket.standIn;
    const codeOf = async () => (await failureOf(bucket.backend.describe("a")))["code"];
    faults.push({ status: 503, code: "SlowDown" });
    expect(await codeOf()).toBe("throttled");
    faults.push({ status: 503, code: "ServiceUnavailable", retryAfter: "3" });
    expect(await codeOf()).toBe("throttled");
    faults.push({ status: 503, code: "ServiceUnavailable" });
    expect(await codeOf()).toBe("unavailable");
  });

  test("is unavailable if the request could not be sent", async () => {
    const bucket = await createBucket();
    await bucket.standIn[Symbol.asyncDispose]();
    const error = await failureOf(bucket.backend.open("a"));
    expect([error["code"], error.message]).toEqual([
      "unavailable",
      's3: open "a": S3 cannot be reached (ECONNREFUSED)',
    ]);
    await bucket.backend.close();
  });

  test("Retry-After counts in seconds or names a time, and pauses the whole backend behind throttle", async () => {
    await using bucket = await createBucket();
    bucket.standIn.put("a", content);
    for (const retryAfter of ["7", new Date(Date.now() + 7000).toUTCString()]) {
      bucket.standIn.faults.push({ status: 429, code: "TooManyRequests", retryAfter });
      const error = await failureOf(bucket.backend.open("a"));
      expect(error["retryAfterMs"]).toBeGreaterThan(5000);
      expect(error["retryAfterMs"]).toBeLessThanOrEqual(7000);
    }
    const waits: number[] = [];
    let now = 0;
    const clock = {
      now: () => now,
      schedule(callback: () => void, delayMs: number) {
        waits.push(delayMs);
        now += delayMs;
        queueMicrotask(callback);
        return () => {};
      },
    };
    const throttled = withThrottle(bucket.backend, { clock });
    bucket.standIn.faults.push({ status: 503, code: "SlowDown", retryAfter: "7" });
    await failureOf(throttled.open("a"));
    await throttled.describe("a");
    expect(waits).toContain(7000);
  });
});

describe("credentials", () => {
  test("are renewed once, by their provider, when they have expired", async () => {
    const tokens: string[] = [];
    await using bucket = await createBucket();
    const { standIn } = bucket;
    standIn.put("a", content);
    const backend = createS3Backend({
      bucket: standIn.bucket,
      endpoint: standIn.endpoint,
      async credentials() {
        tokens.push(`token-${tokens.length}`);
        return { ...standIn.credentials, sessionToken: tokens.at(-1)! };
      },
    });
    standIn.faults.push({ status: 400, code: "ExpiredToken" });
    await readAll((await backend.open("a")).body);
    expect(standIn.requests.map(({ headers }) => headers["x-amz-security-token"])).toEqual([
      "token-0",
      "token-1",
    ]);
    standIn.faults.push({ status: 400, code: "ExpiredToken", times: 9 });
    const calls = [backend.describe("a"), backend.open("a"), backend.list()];
    for (const { code } of await Promise.all(calls.map(failureOf)))
      expect(code).toBe("unauthenticated");
    await backend.close?.();
  });

  test("are unauthenticated when missing", async () => {
    await using bucket = await createBucket({
      credentials: async () => {
        throw Object.assign(new Error("nobody"), { name: "CredentialsProviderError" });
      },
    });
    const error = await failureOf(bucket.backend.open("a"));
    expect([error["code"], error.message]).toEqual([
      "unauthenticated",
      's3: open "a": there are no credentials',
    ]);
  });
});

describe("no secret", () => {
  test("is in an error, of a request or a response, however deeply nested", async () => {
    await using bucket = await createBucket({
      credentials: { accessKeyId: "NOBODY", secretAccessKey: "unknown", sessionToken: "session" },
    });
    const { accessKeyId } = bucket.standIn.credentials;
    await using mistaken = await createBucket({
      credentials: { accessKeyId, secretAccessKey: "mistaken", sessionToken: "session" },
    });
    const { backend } = mistaken;
    const writer = await backend.write("a");
    const errors = [
      await failureOf(bucket.backend.open("a")),
      // the answer to it repeats the key, the signature and what was signed
      await failureOf(backend.open("a")),
      await failureOf(backend.describe("a")),
      await failureOf(backend.list()),
      await failureOf(writer.commit()),
    ];
    const { url = "" } = (await backend.presign("a", { expiresInMs: 60_000 })) ?? {};
    mistaken.standIn.faults.push({ status: 500 });
    errors.push(await failureOf(backend.presign("a/../b", { expiresInMs: 60_000 })));
    for (const error of errors) {
      const text = inspect(error, { depth: 10, showHidden: true });
      for (const secret of [
        url,
        "X-Amz-",
        "AWS4-HMAC",
        "session",
        accessKeyId,
        "NOBODY",
        "mistaken",
      ])
        expect(text).not.toContain(secret);
      expect(error.message).not.toMatch(/[a-z]+:\/\//);
    }
    expect(errors.map(({ code }) => code)).toEqual([
      "unauthenticated",
      "unauthenticated",
      "permission_denied",
      "unauthenticated",
      "unauthenticated",
      "invalid_argument",
    ]);
  });

  test("negative control: the error of the SDK itself gives them away", async () => {
    const { GetObjectCommand } = await import("@aws-sdk/client-s3");
    const { makeClient } = await import("./server-bench.ts");
    await using bucket = await createBucket();
    const { standIn } = bucket;
    const { accessKeyId } = standIn.credentials;
    const client = makeClient(standIn, { accessKeyId, secretAccessKey: "mistaken" });
    const command = new GetObjectCommand({ Bucket: standIn.bucket, Key: "a" });
    const error = await failureOf(client.send(command));
    client.destroy();
    expect(inspect(error)).toContain(accessKeyId);
  });
});

describe("an abort", () => {
  const reason = new Error("the caller's reason");

  /** The error of the work, and how long after the abort, in milliseconds. */
  async function abortDuring(
    work: (signal: AbortSignal) => Promise<unknown>,
    isUnderWay: () => boolean,
  ): Promise<unknown> {
    const caller = new AbortController();
    const failing = failureOf(work(caller.signal));
    await expect.poll(isUnderWay, { interval: 1 }).toBe(true);
    caller.abort(reason);
    return failing;
  }

  test.each(["describe", "open", "list"] as const)(
    "ends %s at once while S3 does not respond, and its connection",
    async (operation) => {
      await using bucket = await createBucket();
      const { standIn, backend } = bucket;
      standIn.faults.push({ silent: true });
      const error = await abortDuring(
        (signal) =>
          operation === "list" ? backend.list({ signal }) : backend[operation]("a", { signal }),
        () => standIn.requests.length === 1,
      );
      expect(error).toBe(reason);
      await expect.poll(() => standIn.countAnswering()).toBe(0);
    },
  );

  test("ends the call at once while a provider prepares credentials", async () => {
    let asked = 0;
    await using bucket = await createBucket({
      credentials: () => {
        asked++;
        return new Promise(() => {});
      },
    });
    for (const work of [
      (signal: AbortSignal) => bucket.backend.open("a", { signal }),
      (signal: AbortSignal) => bucket.backend.presign("a", { expiresInMs: 1000, signal }),
    ]) {
      const error = await abortDuring(work, () => asked > 0);
      expect(error).toBe(reason);
    }
  });

  test("ends a body at once, with the reason and not as a broken connection", async () => {
    await using bucket = await createBucket();
    const { standIn, backend } = bucket;
    standIn.put("a", sparse(1024 * 1024 * 1024));
    standIn.faults.push({ stallAfter: 100_000 });
    const error = await abortDuring(
      async (signal) => readAll((await backend.open("a", { signal })).body),
      () => standIn.countBytes() === 100_000,
    );
    expect(error).toBe(reason);
    await expect.poll(() => standIn.countAnswering()).toBe(0);
  });

  test("during a throttled call has no sleep to end", async () => {
    await using bucket = await createBucket();
    bucket.standIn.faults.push({ status: 503, code: "SlowDown", retryAfter: "3600" });
    const error = await failureOf(bucket.backend.open("a"));
    expect(error["code"]).toBe("throttled");
  });
});
