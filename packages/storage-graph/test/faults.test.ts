import { randomBytes } from "node:crypto";
import type { EmulatedFault } from "@sluice/graph-emulator";
import { protectIn } from "@sluice/storage/internal";
import { describe, expect, test } from "vitest";
import { failOneInAHundred, writeMany } from "../../storage/test/failing-calls.ts";
import { readKey, startEmulated } from "./emulated.ts";

const fragmentBytes = 5 * 1024 * 1024;

const faults = {
  throttled: { status: 503, retryAfter: "0" },
  failed: { status: 500 },
  lost: { isLost: true },
} as const satisfies Record<string, Omit<EmulatedFault, "on">>;

test(
  "none of 1,000 writes fails through a store that fails 1 % of its calls",
  { tags: "slow", timeout: 300_000 },
  async () => {
    const chance = failOneInAHundred();
    await using graph = await startEmulated(
      {},
      {
        discardsUploads: true,
        onRequest() {
          const fault = chance.next();
          return fault && { on: /./, ...faults[fault] };
        },
      },
    );
    expect(await writeMany(graph.backend, 1000, fragmentBytes)).toEqual([]);
    expect(chance.count()).toBeGreaterThan(10);
  },
);

describe("one transient fault ends no write", () => {
  const steps = {
    "a small file": { on: /^PUT graph/, size: 7, options: {} },
    "the start of a session": { on: /createUploadSession/, size: 7, options: { ifAbsent: true } },
    "the only fragment": { on: /^PUT upload/, size: 7, options: { ifAbsent: true } },
    "the first fragment": { on: /^PUT upload/, size: fragmentBytes + 1, options: {} },
  };
  const cases = Object.entries(steps).flatMap(([step, what]) =>
    Object.entries(faults).map(([way, fault]) => [step, way, what, fault] as const),
  );
  test.each(cases)("%s, %s", async (_step, _way, { on, size, options }, fault) => {
    await using graph = await startEmulated();
    const patient = protectIn(graph.backend, { random: () => 0 });
    const writer = await patient.write!("a.bin", { ...options, size });
    graph.emulator.fault({ on, ...fault });
    await writer.write(new Uint8Array(size));
    const { etag } = await writer.commit();
    expect(await graph.backend.describe("a.bin")).toMatchObject({ size, etag });
  });

  test("the last fragment, whose answer is lost, has made the file", async () => {
    await using graph = await startEmulated();
    const size = fragmentBytes + 1;
    const patient = protectIn(graph.backend, { random: () => 0 });
    const writer = await patient.write!("a.bin", { size });
    await writer.write(new Uint8Array(size));
    await expect.poll(() => graph.sent("upload").length).toBe(1);
    graph.emulator.fault({ on: /^PUT upload/, isLost: true });
    await writer.commit();
    expect(graph.sent("upload").map((line) => line.split(" ")[0])).toEqual(["PUT", "PUT", "GET"]);
  });

  test("the own file is known by its bytes where the service forgot the session", async () => {
    await using graph = await startEmulated();
    const bytes = randomBytes(fragmentBytes + 3);
    const patient = protectIn(graph.backend, { random: () => 0 });
    const writer = await patient.write!("a.bin", { size: bytes.length, ifAbsent: true });
    await writer.write(bytes);
    await expect.poll(() => graph.sent("upload").length).toBe(1);
    graph.emulator.fault({ on: /^PUT upload/, isLost: true });
    await writer.commit();
    expect(bytes.equals(await readKey(graph.backend, "a.bin"))).toBe(true);
  });

  test("negative control: a file of another writer, as long and as new, is not taken for the own one", async () => {
    await using graph = await startEmulated(
      {},
      {
        onRequest() {
          if (graph.sent("upload").length === 1) graph.drive.put("a.bin", Buffer.from("another!"));
          return undefined;
        },
      },
    );
    graph.emulator.fault({ on: /^PUT upload/, status: 500 });
    graph.emulator.fault({ on: /^GET upload/, status: 404, times: 9 });
    const patient = protectIn(graph.backend, { random: () => 0 });
    const writer = await patient.write!("a.bin", { size: 8, ifAbsent: true });
    await writer.write(Buffer.from("this one"));
    await expect(writer.commit()).rejects.toMatchObject({ code: "interrupted" });
    expect(String(await readKey(graph.backend, "a.bin"))).toBe("another!");
  });

  test("negative control: a session that is gone while the file is an older one has made nothing", async () => {
    await using graph = await startEmulated();
    const size = fragmentBytes + 1;
    graph.drive.put("a.bin", new Uint8Array(size));
    graph.emulator.passTime(10_000);
    const patient = protectIn(graph.backend, { random: () => 0 });
    const writer = await patient.write!("a.bin", { size });
    await writer.write(new Uint8Array(size));
    await expect.poll(() => graph.sent("upload").length).toBe(1);
    graph.emulator.fault({ on: /^PUT upload/, status: 500 });
    graph.emulator.fault({ on: /^GET upload/, status: 404, times: 9 });
    const json = {
      id: "1",
      name: "a.bin",
      size,
      file: {},
      lastModifiedDateTime: "2026-01-01T00:00:00Z",
    };
    graph.emulator.fault({ on: /^GET graph/, json, times: 9 });
    await expect(writer.commit()).rejects.toMatchObject({ code: "interrupted" });
  });
});
