import assert from "node:assert/strict";
import { createHash } from "node:crypto";
import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type { StorageBackend } from "../../../contract/backend.ts";
import { withValidation } from "../../../wrappers/validate.ts";
import { withDigestCheck } from "../../../wrappers/verify-digest.ts";
import {
  assertBytes,
  expectCode,
  expectReason,
  pattern,
  promptly,
  readBody,
  readKey,
  rejection,
  text,
} from "../../expect.ts";
import { Absent, type Rule, rule } from "../../rule.ts";

const size = 900_000;
const content = pattern(size);

/** Reads to the fault, which has this code, and gives the bytes before it. */
async function readToFault(
  backend: StorageBackend,
  key: string,
  code: SluiceErrorCode,
): Promise<Uint8Array> {
  const chunks: Uint8Array[] = [];
  await expectCode(async () => {
    const { body } = await backend.open(key);
    for await (const chunk of body) chunks.push(chunk);
  }, code);
  return Buffer.concat(chunks);
}

/** Faults of services, and how they are reported. */
export const failureRules: readonly Rule[] = [
  rule({
    id: "failure-reset",
    sentence: "a body that breaks is interrupted, and the bytes before are right",
    needs: ["fault.reset"],
    async check({ backend, put, faults }) {
      await put("reset.bin", content);
      faults.reset(300_000);
      const bytes = await readToFault(backend, "reset.bin", "interrupted");
      assertBytes(bytes, content.subarray(0, bytes.byteLength));
    },
  }),
  rule({
    id: "failure-truncated",
    sentence: "a body that ends too early is interrupted behind protect, so its size must be told",
    needs: ["fault.truncate", "size"],
    async check({ backend, put, faults }) {
      await put("truncated.bin", content);
      faults.truncate(300_000);
      await readToFault(withValidation(backend), "truncated.bin", "interrupted");
    },
  }),
  rule({
    id: "failure-overrun",
    sentence: "a body that is too long is corrupt behind protect, never cut and passed on",
    needs: ["fault.overrun", "size"],
    async check({ backend, put, faults }) {
      await put("overrun.bin", content);
      faults.overrun(10);
      await readToFault(withValidation(backend), "overrun.bin", "corrupt");
    },
  }),
  rule({
    id: "failure-stall",
    sentence: "a stalled body can be aborted",
    needs: ["fault.stall"],
    async check({ backend, put, faults }) {
      await put("stall.bin", content);
      faults.stall(300_000);
      const caller = new AbortController();
      const { body } = await backend.open("stall.bin", { signal: caller.signal });
      const reading = readBody(body);
      const reason = new Error("the caller's reason");
      setTimeout(() => caller.abort(reason), 20);
      await expectReason(() => promptly(reading, "the end of a stalled body"), reason);
    },
  }),
  rule({
    id: "failure-throttled",
    sentence: "a throttled call tells how many seconds the service asked for",
    needs: ["fault.throttle"],
    async check({ backend, put, faults }) {
      await put("throttled.bin", content);
      faults.throttle("7");
      const error = await expectCode(() => backend.describe("throttled.bin"), "throttled");
      assert.equal(error["retryAfterMs"], 7000);
    },
  }),
  rule({
    id: "failure-throttled-date",
    sentence: "Retry-After may be a date (RFC 9110 §10.2.3)",
    needs: ["fault.throttle"],
    async check({ backend, put, faults }) {
      await put("throttled.bin", content);
      faults.throttle(new Date(Date.now() + 30_000).toUTCString());
      const error = await expectCode(() => backend.describe("throttled.bin"), "throttled");
      const retryAfterMs = Number(error["retryAfterMs"]);
      assert.ok(retryAfterMs > 20_000 && retryAfterMs <= 31_000, `retryAfterMs is ${retryAfterMs}`);
    },
  }),
  rule({
    id: "failure-service",
    sentence: "a failing service is unavailable",
    needs: ["fault.fail"],
    async check({ backend, put, faults }) {
      await put("service.bin", content);
      for (const call of [
        () => backend.describe("service.bin"),
        () => backend.open("service.bin"),
        () => backend.list(),
      ]) {
        faults.fail();
        await expectCode(call, "unavailable");
      }
    },
  }),
  rule({
    id: "failure-denied",
    sentence: "a forbidden object is permission_denied",
    needs: ["fault.deny"],
    async check({ backend, put, faults }) {
      await put("denied.bin", content);
      await faults.deny("denied.bin");
      await expectCode(() => backend.open("denied.bin"), "permission_denied");
    },
  }),
  rule({
    id: "failure-credentials",
    sentence: "credentials that the service refuses are renewed once, then unauthenticated",
    needs: ["fault.expireCredentials"],
    async check({ backend, put, faults }) {
      await put("credentials.bin", content);
      faults.expireCredentials(1);
      await backend.describe("credentials.bin");
      faults.expireCredentials(1000);
      await expectCode(() => backend.describe("credentials.bin"), "unauthenticated");
    },
  }),
  rule({
    id: "failure-at-once",
    sentence: "a backend never sleeps and never retries: a throttled call rejects at once",
    needs: ["fault.throttle", "fixture.countRequests"],
    async check({ backend, put, faults, countRequests }) {
      await put("once.bin", content);
      const before = countRequests();
      faults.throttle("60");
      await promptly(
        rejection(() => backend.describe("once.bin")),
        "the refusal",
      );
      assert.equal(countRequests() - before, 1, "requests for one refused call");
    },
  }),
  rule({
    id: "failure-message",
    sentence: "a message begins with the backend's name and has no secret and no URL in it",
    async check({ backend, put, faults, secrets = [] }) {
      await put("message.bin", content);
      const failures = [
        await rejection(() => backend.describe("missing.txt")),
        await rejection(() => backend.open("missing.txt")),
        await rejection(() => backend.open("a//b")),
      ];
      if (faults?.fail) {
        faults.fail();
        failures.push(await rejection(() => backend.describe("missing.txt")));
      }
      if (faults?.reset) {
        faults.reset(300_000);
        failures.push(await rejection(() => readKey(backend, "message.bin")));
      }
      for (const { message } of failures as Error[]) {
        assert.ok(
          message.startsWith(`${backend.name}: `),
          `"${message}" does not name the backend`,
        );
        assert.ok(!/[a-z]:\/\//i.test(message), "there is a URL in the message");
        for (const secret of secrets)
          assert.ok(!message.includes(secret), "a secret is in the message");
      }
    },
  }),
  rule({
    id: "failure-cause",
    sentence: "a failure of the service keeps its cause for the log",
    needs: ["fault.fail"],
    async check({ backend, faults }) {
      faults.fail();
      const error = (await rejection(() => backend.describe("any.txt"))) as Error;
      assert.ok(error.cause !== undefined, "there is no cause");
    },
  }),
  rule({
    id: "failure-class",
    sentence:
      "every error is a SluiceError, even to another installed copy, and says if it is retryable",
    async check({ backend, put }) {
      await put("class.bin", pattern(10));
      for (const call of [
        () => backend.describe("missing.txt"),
        () => backend.open("missing.txt"),
        () => backend.open("../up"),
        () => backend.open("class.bin", { range: { start: 10 } }),
      ]) {
        const error = await rejection(call);
        assert.ok(SluiceError.is(error), `${String(error)} is not a SluiceError`);
        assert.equal(error.retryable, new SluiceError(error.code, "").retryable);
      }
    },
  }),
  rule({
    id: "failure-rejects",
    sentence: "a call that fails rejects; it never throws before there is a promise",
    async check({ backend }) {
      const key = "rejects//here";
      const signal = AbortSignal.abort(new Error("the caller's reason"));
      for (const call of [
        () => backend.describe(key),
        () => backend.describe("rejects/aborted", { signal }),
        () => backend.open(key),
        () => backend.open("rejects/aborted", { signal }),
        () => backend.list({ limit: 0 }),
        () => backend.list({ signal }),
        backend.presign && (() => backend.presign?.(key, { expiresInMs: 1000 })),
        backend.write && (() => backend.write?.(key)),
        backend.write && (() => backend.write?.("rejects/aborted", { signal })),
        backend.remove && (() => backend.remove?.(key)),
        backend.remove && (() => backend.remove?.("rejects/aborted", { signal })),
      ])
        // a throw fails the rule here; whether the call rejects is the matter of other rules
        await call?.()?.catch(() => {});
    },
  }),
  rule({
    id: "failure-digest",
    sentence: "a digest is that of the whole stored object, so that a wrong byte can be found",
    async check({ backend, put, faults }) {
      await put("digest.bin", content);
      const { digests = {} } = await backend.describe("digest.bin");
      const names = (["sha256", "sha1", "md5"] as const).filter(
        (name) => digests[name] !== undefined,
      );
      if (names.length === 0) throw new Absent("the backend has no SHA or MD5 digest");
      for (const name of names)
        assert.equal(digests[name], createHash(name).update(content).digest("hex"), name);
      if (faults?.corrupt === undefined || digests.sha256 === undefined) return;
      faults.corrupt(size - 1);
      await expectCode(() => readKey(withDigestCheck(backend), "digest.bin"), "corrupt");
    },
  }),
  rule({
    id: "failure-recovers",
    sentence: "after any failure the next call works",
    async check({ backend, put, faults }) {
      await put("recovers.txt", text("recovers"));
      const failures = [
        () => backend.describe("missing.txt"),
        () => backend.open(".."),
        () => backend.open("recovers.txt", { ifMatch: "another" }),
        () => backend.open("recovers.txt", { range: { start: 8 } }),
        () => backend.open("recovers.txt", { signal: AbortSignal.abort() }),
        () => backend.list({ cursor: "\u2603" }),
      ];
      for (const fail of failures) {
        await fail().catch(() => {});
        assertBytes(await readKey(backend, "recovers.txt"), text("recovers"));
      }
      for (const fault of [faults?.fail, () => faults?.reset?.(2), () => faults?.throttle?.("1")]) {
        fault?.();
        await readKey(backend, "recovers.txt").catch(() => {});
        assertBytes(await readKey(backend, "recovers.txt"), text("recovers"));
      }
    },
  }),
];
