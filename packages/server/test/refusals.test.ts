import type { AuditRecord, SluiceOptions, TelemetrySpan } from "@sluice/server";
import { openAuditFile } from "@sluice/server/node";
import { mkdtemp, readFile, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { alice, as, createHouse } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const forged = process.env["SLUICE_DEEP"] ? 100_000 : 300;
const headers = as(alice);
const asCounted = ({ count }: AuditRecord): boolean => count !== undefined;
const sum = (records: readonly AuditRecord[]): number =>
  records.reduce((all, { count = 1 }) => all + count, 0);

/** A house that records addresses when it is told to, whose clients say theirs. */
function createStreet({
  addresses = false,
  ...options
}: Partial<SluiceOptions> & { addresses?: boolean } = {}) {
  const kept: AuditRecord[] = [];
  const audit = { sink: (record: AuditRecord) => void kept.push(record), addresses };
  const house = createHouse({ audit, rates: { failedRedemptions: false }, ...options });
  return { house, kept };
}

function useFakeTime(): void {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "Date"] });
  onTestFinished(() => void vi.useRealTimers());
}

test("forged URLs are five records and one that counts the others, with the times of the first and the last", async () => {
  useFakeTime();
  const { house, kept } = createStreet();
  const began = Date.now();
  for (let n = 0; n < forged; n++) await house.redeem(`forged-${n}`);
  vi.advanceTimersByTime(30_000);
  await house.redeem("forged");
  expect(kept).toHaveLength(5);
  vi.advanceTimersByTime(30_000);
  expect(kept).toHaveLength(6);
  expect(kept.at(-1)).toEqual({
    id: expect.stringMatching(/^[0-9a-f]{24}-\d+$/),
    time: began,
    action: "download",
    outcome: "denied",
    reason: "not_found",
    count: forged - 4,
    bytes: 0,
    durationMs: 30_000,
  });
  expect(new Set(kept.map(({ id }) => id)).size).toBe(6);
  // a window in which nothing came leaves nothing
  vi.advanceTimersByTime(600_000);
  expect(kept).toHaveLength(6);
});

test("counted refusals are written when the Sluice is closed, and without timers with the next refusal", async () => {
  useFakeTime();
  const { house, kept } = createStreet();
  for (let n = 0; n < 8; n++) await house.redeem("x");
  await house.sluice.close();
  expect(kept.filter(asCounted)).toMatchObject([{ count: 3 }]);
  for (let n = 0; n < 7; n++) await house.redeem("x");
  vi.setSystemTime(Date.now() + 61_000);
  await house.redeem("x");
  expect(kept.filter(asCounted)).toMatchObject([{ count: 3 }, { count: 2 }]);
  expect(sum(kept)).toBe(16);
  await house.sluice.close();
});

test("a caller that is identified, and each answer that gives something, is a record of its own", async () => {
  const { house, kept } = createStreet();
  const call = talkTo(house.sluice);
  const { token } = house.seal("download", { key: "a.bin", principal: alice });
  const gone = house.seal("download", { key: "gone.bin", principal: alice });
  for (let n = 0; n < 20; n++) {
    await house.redeem(token, { method: "HEAD", headers });
    await house.redeem(gone.token, { headers });
    await call(eras[n % 2]!, "resources/read", { params: { uri: "files://demo/no.bin" }, headers });
  }
  expect(kept).toHaveLength(60);
  expect(kept.filter(asCounted)).toEqual([]);
  await house.sluice.close();
});

test("a leaked URL that is tried without its principal is counted under its grant", async () => {
  const { house, kept } = createStreet();
  const { token, id } = house.seal("download", { key: "a.bin", principal: alice });
  for (let n = 0; n < 30; n++) await house.redeem(token);
  for (let n = 0; n < 30; n++) await house.redeem("forged");
  await house.sluice.close();
  expect(kept.filter(asCounted)).toMatchObject([
    { reason: "unauthenticated", grant: id, count: 25 },
    { reason: "not_found", count: 25 },
  ]);
});

test("an operation whose beginning is on record has its end there, too", async () => {
  const { house, kept } = createStreet({
    anonymous: true,
    audit: { required: true, sink: (record) => void kept.push(record) },
  });
  for (let n = 0; n < 20; n++) {
    const { token } = house.seal("download", { key: "a.bin", use: "lease" });
    const { transfer } = await house.redeem(token);
    transfer!.end({ outcome: "aborted", bytes: 0 });
    await transfer!.source.body.cancel();
  }
  expect(kept).toHaveLength(40);
  expect(kept.filter(asCounted)).toEqual([]);
});

test("requests that are given up before they are known are counted like those that are refused", async () => {
  const { house, kept } = createStreet();
  const signal = AbortSignal.abort();
  for (let n = 0; n < 30; n++) await house.redeem("forged", { signal });
  await house.sluice.close();
  expect(kept).toHaveLength(6);
  expect(sum(kept)).toBe(30);
});

test(
  "a refused call is counted whatever it asks for, in bounded records",
  { tags: "slow" },
  async () => {
    const { house, kept } = createStreet();
    const call = talkTo(house.sluice);
    for (let n = 0; n < 100; n++)
      await call(eras[n % 2]!, "resources/read", {
        params: { uri: `files://demo/${"x".repeat(3_000)}${n}` },
      });
    await house.sluice.close();
    expect(kept.filter(asCounted)).toMatchObject([
      { action: "read", reason: "unauthenticated", count: 95 },
    ]);
  },
);

test("state of one window is bounded in characters, however many kinds there are", async () => {
  const { house, kept } = createStreet({ addresses: true });
  const call = talkTo(house.sluice);
  for (let n = 0; n < 400; n++) {
    await house.redeem("forged", { address: `192.0.2.${n % 250}` });
    if (n < 50)
      await call(eras[n % 2]!, "resources/read", {
        params: { uri: `files://demo/${"x".repeat(4_000)}` },
      });
  }
  await house.sluice.close();
  expect(sum(kept)).toBe(450);
  expect(JSON.stringify(kept).length).toBeLessThan(64 * 1_024);
});

describe("the address of the client", () => {
  test("is in no record unless it is asked for", async () => {
    for (const addresses of [false, true]) {
      const { house, kept } = createStreet({ addresses });
      const { token } = house.seal("download", { key: "a.bin", principal: alice });
      await house.redeem("forged", { address: "192.0.2.1" });
      await house.redeem(token, { method: "HEAD", headers, address: "2001:db8::1" });
      expect(kept.map(({ address }) => address)).toEqual(
        addresses ? ["192.0.2.1", "2001:db8::1"] : [undefined, undefined],
      );
    }
  });

  test(
    "tells refusals apart, up to a number of them; beyond, the count says many",
    { tags: "slow" },
    async () => {
      const { house, kept } = createStreet({ addresses: true });
      for (let n = 0; n < 40; n++) await house.redeem("forged", { address: "192.0.2.1" });
      for (let n = 0; n < 5_000; n++)
        await house.redeem("forged", { address: `10.0.${n >> 8}.${n & 255}` });
      await house.sluice.close();
      expect(sum(kept)).toBe(5_040);
      expect(kept.length).toBeLessThan(150);
      const counted = kept.filter(asCounted);
      expect(counted).toContainEqual(expect.objectContaining({ address: "192.0.2.1", count: 35 }));
      expect(counted.find(({ address }) => address === "many")!.count).toBeGreaterThan(4_000);
    },
  );

  test("is what the hook of the host says; a hook that throws says nothing", async () => {
    const { house, kept } = createStreet({
      addresses: true,
      clientAddress: ({ header }) => {
        const address = header("cf-connecting-ip");
        if (address === undefined) throw new Error("no CDN");
        return address;
      },
    });
    await house.redeem("forged", {
      address: "10.0.0.1",
      headers: { "cf-connecting-ip": `192.0.2.7\n${"x".repeat(100)}` },
    });
    await house.redeem("forged", { address: "10.0.0.1" });
    expect(kept[0]!.address).toMatch(/^192\.0\.2\.7%0Ax{52}$/);
    expect(kept[1]!.address).toBeUndefined();
    expect(house.errors).toHaveLength(1);
  });
});

test("telemetry counts each refusal, and gets one span for those that are not kept", async () => {
  const calls: string[] = [];
  const span: TelemetrySpan = {
    run: (work) => work(),
    end: ({ count }) => void calls.push(count === undefined ? "end" : `end of ${count}`),
    count: () => void calls.push("count"),
  };
  const { house } = createStreet({
    telemetry: { begin: () => span, countStreams() {}, runApart: (work) => work() },
  });
  for (let n = 0; n < 8; n++) await house.redeem("forged");
  await house.sluice.close();
  expect(calls).toEqual([...Array(5).fill("end"), ...Array(3).fill("count"), "end of 3"]);
});

test("a flood of forged URLs leaves a small file, which is a whole chain", async () => {
  const folder = await mkdtemp(join(tmpdir(), "sluice-flood-"));
  onTestFinished(() => rm(folder, { recursive: true }));
  const path = join(folder, "audit.log");
  const trail = await openAuditFile({ path, reserveBytes: 0 });
  const { house } = createStreet({ audit: { file: trail, addresses: true } });
  for (let n = 0; n < forged; n++) await house.redeem(`forged-${n}`, { address: "192.0.2.1" });
  await house.sluice.close();
  expect((await stat(path)).size).toBeLessThan(10_000);
  const lines = (await readFile(path, "utf8")).trimEnd().split("\n").slice(1);
  expect(sum(lines.map((line) => JSON.parse(line)))).toBe(forged);
});
