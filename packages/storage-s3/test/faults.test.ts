import { protectIn } from "@sluice/storage/internal";
import { describe, expect, test } from "vitest";
import { failOneInAHundred, writeMany } from "../../storage/test/failing-calls.ts";
import { createBucket } from "./bucket.ts";
import type { Fault } from "./stand-in/options.ts";

const partBytes = 8 * 1024 * 1024;

const faults = {
  throttled: { status: 503, code: "SlowDown", retryAfter: "0" },
  failed: { status: 500, code: "InternalError" },
  lost: { lost: true },
} as const satisfies Record<string, Fault>;

test(
  "none of 1,000 writes fails through a store that fails 1 % of its calls",
  { tags: "slow", timeout: 300_000 },
  async () => {
    const chance = failOneInAHundred();
    await using bucket = await createBucket(
      {},
      {
        keepUploads: false,
        onRequest() {
          const fault = chance.next();
          return fault && faults[fault];
        },
      },
    );
    expect(await writeMany(bucket.backend, 1000, partBytes)).toEqual([]);
    expect(chance.count()).toBeGreaterThan(10);
  },
);

describe("one transient fault ends no write of several parts", () => {
  const steps = {
    "the start": /^POST .*uploads/,
    "the first part": /partNumber=1/,
    "the last part": /partNumber=2/,
    "the end": /^POST .*uploadId/,
  };
  const ways: Record<string, Fault> = { ...faults, "found out late": { late: true } };
  const cases = Object.entries(steps).flatMap(([step, on]) =>
    Object.entries(ways)
      // only the end is answered so
      .filter(([way]) => way !== "found out late" || step === "the end")
      .map(([way, fault]) => [step, way, { ...fault, on }] as const),
  );
  test.each(cases)("%s, %s", async (_step, _way, fault) => {
    await using bucket = await createBucket({}, { keepUploads: false });
    const patient = protectIn(bucket.backend, { random: () => 0 });
    for (const options of [{}, { ifAbsent: true }]) {
      bucket.standIn.faults.push(fault);
      const key = `${options.ifAbsent}.bin`;
      const writer = await patient.write!(key, options);
      await writer.write(new Uint8Array(partBytes + 1));
      const { etag } = await writer.commit();
      expect(await bucket.backend.describe(key)).toMatchObject({ size: partBytes + 1, etag });
      expect(bucket.standIn.faults).toEqual([]);
    }
  });

  test("negative control: an end whose response is lost is not another writer's", async () => {
    await using bucket = await createBucket({}, { keepUploads: false });
    const patient = protectIn(bucket.backend, { random: () => 0 });
    const writer = await patient.write!("a", { ifAbsent: true });
    await writer.write(new Uint8Array(partBytes + 1));
    // the first try does not arrive, and another writer comes before the second
    bucket.standIn.faults.push({ on: steps["the end"], status: 500, code: "InternalError" });
    bucket.standIn.put("a", new Uint8Array(partBytes + 1));
    await expect(writer.commit()).rejects.toMatchObject({ code: "precondition_failed" });
  });
});

test("a part that fails again and again is sent by itself until it is there, before the next one", async () => {
  await using bucket = await createBucket({}, { keepUploads: false });
  const patient = protectIn(bucket.backend, { random: () => 0 });
  const writer = await patient.write!("a");
  const fault = { on: /partNumber=1&/, status: 500, code: "InternalError", times: 3 };
  bucket.standIn.faults.push(fault);
  for (let n = 0; n < 3; n++) await writer.write(new Uint8Array(partBytes));
  await writer.commit();
  const parts = bucket.standIn.requests.filter(({ url }) => url.includes("partNumber"));
  expect(parts.map(({ url }) => /partNumber=(\d)/.exec(url)?.[1])).toEqual([
    "1",
    "1",
    "1",
    "1",
    "2",
    "3",
  ]);
});
