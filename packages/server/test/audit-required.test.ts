import type { AuditFile, AuditInput, AuditRecord, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, wrapBackend } from "@sluice/storage";
import { describe, expect, test, vi } from "vitest";
import { alice, as, bodyOf, createHouse, headerOf } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const headers = as(alice);
const params = { uri: "files://demo/a.bin" };

/** A house whose sink can be broken, slowed down and read. */
function createKeeper(options: Partial<SluiceOptions> = {}) {
  const kept: AuditRecord[] = [];
  const sink = { isBroken: false };
  let cancelled = 0;
  const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
    open: (open) => async (key, call) => {
      const { info, body } = await open(key, call);
      const reader = body.getReader();
      return {
        info,
        body: new ReadableStream<Uint8Array>({
          async pull(controller) {
            const { value } = await reader.read();
            if (value) controller.enqueue(value);
            else controller.close();
          },
          cancel: () => void (cancelled += 1),
        }),
      };
    },
  });
  const house = createHouse({
    storage,
    audit: {
      required: true,
      async sink(record) {
        await Promise.resolve();
        if (sink.isBroken) throw new Error("disk full");
        kept.push(record);
      },
    },
    ...options,
  } as Partial<SluiceOptions>);
  return {
    house,
    kept,
    sink,
    talk: talkTo(house.sluice),
    cancelled: () => cancelled,
    token: (use: "once" | "window" = "window") =>
      house.seal("download", { key: "a.bin", principal: alice, use }).token,
  };
}

describe.each(eras)("%s era", (era) => {
  test.each(["resources/list", "resources/read", "resources/stream"])(
    "%s gives nothing away without its record, and is busy instead [ARTICLE/8/audit]",
    async (method) => {
      const { talk, sink, kept } = createKeeper();
      sink.isBroken = true;
      const refused = await talk(era, method, { params, headers });
      expect(refused.message.error?.data).toMatchObject({ reason: "busy", retryAfterMs: 1_000 });
      expect(refused.slot.reply).toBeUndefined();
      expect(JSON.stringify(refused.message)).not.toMatch(/MDEyMzQ1Njc4OQ|0123456789|"resources"/);
      expect(kept).toEqual([]);
      sink.isBroken = false;
      const given = await talk(era, method, { params, headers });
      expect(given.message.error).toBeUndefined();
      expect(kept.length).toBeGreaterThan(0);
    },
  );

  test("a download URL and a redirect are on record before they leave", async () => {
    for (const delivery of ["downloadUrl", "redirect"] as const) {
      const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {});
      storage.presign = async () => ({
        url: "https://bucket.example.com/a",
        expiresAt: Date.now(),
      });
      const more = { delivery, storage, redirectOrigins: ["https://bucket.example.com"] };
      const { talk, sink, kept } = createKeeper(more);
      sink.isBroken = true;
      const refused = await talk(era, "resources/stream", { params, headers });
      expect(refused.message.error?.data.reason).toBe("busy");
      expect(refused.slot.reply).toBeUndefined();
      sink.isBroken = false;
      await talk(era, "resources/stream", { params, headers });
      expect(kept).toMatchObject([{ outcome: "issued", mode: delivery, revision: era }]);
    }
  });

  test("bytes wait for the record that says they begin; a second one says how they ended", async () => {
    const { talk, kept, sink, cancelled } = createKeeper();
    const { slot } = await talk(era, "resources/stream", { params, headers });
    expect(kept).toMatchObject([{ action: "stream", outcome: "begun", bytes: 0 }]);
    await bodyOf(slot.reply!);
    await expect.poll(() => kept).toHaveLength(2);
    expect(kept[1]).toMatchObject({ id: kept[0]?.id, outcome: "complete", bytes: 10 });
    sink.isBroken = true;
    await talk(era, "resources/stream", { params, headers });
    expect(cancelled()).toBe(1);
  });
});

test("names are suggested on record only", async () => {
  const { talk, sink, kept } = createKeeper();
  const ref = { type: "ref/resource", uri: "files://demo/{+key}" };
  const complete = async () =>
    (
      await talk("modern", "completion/complete", {
        params: { ref, argument: { name: "key", value: "a" } },
        headers,
      })
    ).message;
  sink.isBroken = true;
  expect((await complete()).error?.data.reason).toBe("busy");
  sink.isBroken = false;
  expect((await complete()).result.completion.values).toEqual(["a.bin"]);
  expect(kept).toMatchObject([{ action: "completion", outcome: "complete", shown: 1 }]);
});

test("a redemption without its record is 503 with Retry-After, releases its permit, and leaves the grant alone", async () => {
  const { house, sink, kept, token, cancelled } = createKeeper({
    limits: { streams: { perPrincipal: 1 } },
  });
  const once = token("once");
  sink.isBroken = true;
  for (const tries of [1, 2]) {
    const refused = await house.redeem(once, { headers });
    expect([refused.status, headerOf(refused, "retry-after"), refused.transfer]).toEqual([
      503,
      "1",
      undefined,
    ]);
    expect(cancelled()).toBe(tries);
  }
  sink.isBroken = false;
  const reply = await house.redeem(once, { headers });
  expect(kept.at(-1)).toMatchObject({ action: "download", outcome: "begun" });
  expect(await bodyOf(reply)).toBe("0123456789");
  expect((await house.redeem(once, { headers })).status).toBe(404);
});

test("reads of metadata without bytes are on record, too", async () => {
  const { house, sink, token, kept } = createKeeper();
  const head = await house.redeem(token(), { method: "HEAD", headers });
  const conditional = { ...headers, "if-none-match": headerOf(head, "etag")! };
  expect((await house.redeem(token(), { headers: conditional })).status).toBe(304);
  expect(kept).toMatchObject([{ outcome: "complete" }, { outcome: "complete" }]);
  sink.isBroken = true;
  expect((await house.redeem(token(), { method: "HEAD", headers })).status).toBe(503);
  expect((await house.redeem(token(), { headers: conditional })).status).toBe(503);
});

test("a record of the end that is not kept is a fault on our side: the bytes have left", async () => {
  const { house, sink, token } = createKeeper();
  const reply = await house.redeem(token(), { headers });
  sink.isBroken = true;
  expect(await bodyOf(reply)).toBe("0123456789");
  await expect.poll(() => house.errors).toHaveLength(1);
});

test("a lazy query, which is not a promise and runs once it is awaited, is awaited", async () => {
  for (const isBroken of [false, true]) {
    let runs = 0;
    const query = {
      // oxlint-disable-next-line unicorn/no-thenable -- it is what such libraries give
      async then(resolve: () => void, reject: (error: unknown) => void) {
        runs += 1;
        await Promise.resolve();
        if (isBroken) reject(new Error("database down"));
        else resolve();
      },
    };
    const { house, token } = createKeeper({
      audit: { required: true, sink: () => query as unknown as Promise<void> },
    });
    expect((await house.redeem(token(), { headers })).status).toBe(isBroken ? 503 : 200);
    expect(runs).toBeGreaterThan(0);
  }
});

test("a refusal needs no record to be one", async () => {
  const { house, sink } = createKeeper();
  sink.isBroken = true;
  expect((await house.redeem("nonsense", { headers })).status).toBe(404);
  await expect.poll(() => house.errors).toHaveLength(1);
});

test("a sink that never answers counts as broken after 5 s", async () => {
  const { house, token } = createKeeper({
    audit: { required: true, sink: () => new Promise(() => {}) },
  });
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  try {
    const asked = house.redeem(token(), { headers });
    await vi.advanceTimersByTimeAsync(10_000);
    expect((await asked).status).toBe(503);
    // the record of the refusal is waited for as long, by nobody but the log
    await vi.advanceTimersByTimeAsync(5_000);
  } finally {
    vi.useRealTimers();
  }
  expect(house.errors.length).toBeGreaterThan(0);
});

describe("an audit file that cannot be written", () => {
  let closed = 0;
  const file: AuditFile = {
    path: "/full/audit.log",
    required: true,
    sink: () => Promise.reject(new Error("disk full")),
    close: async () => void (closed += 1),
  };
  test.each<[string, AuditInput, number]>([
    ["by itself", file, 503],
    ["with settings", { file, addresses: true }, 503],
    ["with required: false", { file, required: false }, 200],
  ])(
    "%s is closed with the Sluice, and a redemption ends as its settings say",
    async (_title, audit, status) => {
      const { house, token } = createKeeper({ audit });
      const reply = await house.redeem(token(), { headers });
      expect(reply.status).toBe(status);
      await bodyOf(reply);
      closed = 0;
      await house.sluice.close();
      expect(closed).toBe(1);
    },
  );

  test("is passed as a file or as a sink, not as both or under another name", () => {
    const wrong: unknown[] = [{ file, sink: file.sink }, { required: true }, "audit.log"];
    for (const audit of wrong)
      expect(() => createKeeper({ audit: audit as AuditInput })).toThrow(
        "createSluice: audit is a function, a file of openAuditFile, { sink } or { file }",
      );
  });
});

test("a broken sink holds nothing back if records are not required", async () => {
  const { house, token } = createKeeper({ audit: () => Promise.reject(new Error("disk full")) });
  expect(await bodyOf(await house.redeem(token(), { headers }))).toBe("0123456789");
  await expect.poll(() => house.errors).toHaveLength(1);
});

test("an answer without bytes holds no permit of the streams while it waits for its record", async () => {
  let take: (() => void) | undefined;
  const taken = new Promise<void>((resolve) => (take = resolve));
  let records = 0;
  const { house, token } = createKeeper({
    audit: {
      required: true,
      sink() {
        records += 1;
        return taken;
      },
    },
    limits: { streams: { perPrincipal: 1 } },
  });
  const first = house.redeem(token(), { method: "HEAD", headers });
  await expect.poll(() => records).toBe(1);
  const second = house.redeem(token(), { method: "HEAD", headers });
  await expect.poll(() => records).toBe(2);
  take?.();
  expect([(await first).status, (await second).status]).toEqual([200, 200]);
});

test("every operation has an id of its own", async () => {
  const { house, talk, kept, token } = createKeeper();
  await Promise.all([
    ...Array.from({ length: 20 }, () => house.redeem(token(), { method: "HEAD", headers })),
    ...eras.map((era) => talk(era, "resources/list", { headers })),
  ]);
  await expect.poll(() => kept).toHaveLength(22);
  expect(new Set(kept.map(({ id }) => id)).size).toBe(22);
});
