import { setImmediate as turn } from "node:timers/promises";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { createKeyRing, createSealer, generateKey, type Principal } from "@sluice/core";
import { createSluice, type AccessDecision, type SluiceOptions } from "@sluice/server";
import type { Reply } from "@sluice/server/internal";
import type { KeptObject } from "@sluice/storage/plugin";
import { afterEach, describe, expect, test, vi } from "vitest";
import { bytes, createKeeping, first } from "./keeping.ts";
import { alice, as, bodyOf, endpoint, headerOf } from "./redeeming.ts";

function createKeeper(options: Partial<SluiceOptions> = {}) {
  const key = generateKey();
  const keys = createKeyRing([key]);
  const keeping = createKeeping();
  const sluice = createSluice({
    storage: keeping.storage,
    baseUri: "files://demo/",
    endpoint,
    keys,
    onWarning: () => {},
    onError: () => {},
    principal: ({ header }) => {
      const [issuer = "", subject, clientId = ""] = (header("authorization") ?? "").split(" ");
      return subject === undefined ? undefined : { issuer, subject, clientId };
    },
    ...options,
  } as SluiceOptions);
  const sealer = createSealer({ keys, audience: endpoint });
  const { token, id } = sealer.seal("download", { key: "a.bin", principal: alice, etag: "v1" });
  const get = (
    headers: Record<string, string> = as(alice),
    sent = token,
    method: "GET" | "HEAD" = "GET",
  ) => sluice.host.redeem({ method, token: sent, header: (name) => headers[name] });
  const status = async (...sent: Parameters<typeof get>): Promise<number> => {
    const reply = await get(...sent);
    await bodyOf(reply);
    return reply.status;
  };
  return { ...keeping, sluice, keys, token, id, get, status };
}

afterEach(() => void vi.useRealTimers());

/** Answers twice, so that everything that is remembered is. */
async function warmed(options?: Partial<SluiceOptions>) {
  const keeper = createKeeper(options);
  for (let round = 0; round < 2; round++) expect(await keeper.status()).toBe(200);
  expect(keeper.opened.length).toBeLessThanOrEqual(1);
  keeper.opened.length = 0;
  return keeper;
}

describe("an object that lies in memory", () => {
  test("is answered without opening it, with the same headers each time and a source of its own", async () => {
    const { get, opened } = await warmed();
    const [one, two] = [await get(), await get()];
    expect(opened).toEqual([]);
    expect(one.headers).toBe(two.headers);
    expect([headerOf(one, "content-length"), headerOf(one, "etag")]).toEqual(["10", '"v1"']);
    expect(headerOf(one, "cache-control")).toBe("private, no-store, no-transform");
    expect([await bodyOf(one), await bodyOf(two)]).toEqual(["0123456789", "0123456789"]);
  });

  test("has headers that no transport can alter for the next answer", async () => {
    const { get } = await warmed();
    const { headers } = await get();
    expect(() => (headers as string[]).push("Set-Cookie", "a=b")).toThrow(TypeError);
    expect((await get()).headers).not.toContain("Set-Cookie");
  });

  test("cannot be altered through a body", async () => {
    const { get } = await warmed();
    for await (const chunk of (await get()).transfer!.source.body) chunk.fill(0);
    expect(await bodyOf(await get())).toBe("0123456789");
  });

  test("is opened for a range, and looked at for a condition and for HEAD", async () => {
    const { get, opened } = await warmed();
    expect((await get({ ...as(alice), range: "bytes=0-3" })).status).toBe(206);
    expect(opened).toEqual(["a.bin"]);
    expect((await get({ ...as(alice), "if-none-match": '"v1"' })).status).toBe(304);
    const head = await get(as(alice), undefined, "HEAD");
    expect([head.status, head.transfer]).toEqual([200, undefined]);
  });

  test("has the headers of its version from the first answer on", async () => {
    const { sluice, keys, keep } = await warmed();
    const { token } = createSealer({ keys, audience: endpoint }).seal("download", {
      key: "a.bin",
      principal: alice,
    });
    const get = () =>
      sluice.host.redeem({ method: "GET", token, header: (name) => as(alice)[name] });
    expect(headerOf(await get(), "etag")).toBe('"v1"');
    keep({ info: { key: "a.bin", size: 3, etag: "v2" }, bytes: bytes.subarray(0, 3) });
    const reply = await get();
    expect([headerOf(reply, "etag"), headerOf(reply, "content-length")]).toEqual(['"v2"', "3"]);
    expect(await bodyOf(reply)).toBe("012");
  });

  test("is not held by the grants that were answered with it", { tags: "slow" }, async () => {
    setFlagsFromString("--expose-gc");
    const collect = runInNewContext("gc") as () => void;
    const { sluice, keys, keep } = createKeeper();
    const sealer = createSealer({ keys, audience: endpoint });
    const held: WeakRef<KeptObject>[] = [];
    for (let version = 0; version < 8; version++) {
      const kept = { info: { key: "a.bin", size: 10, etag: `v${version}` }, bytes: bytes.slice() };
      keep(kept);
      held.push(new WeakRef(kept));
      const { token } = sealer.seal("download", { key: "a.bin", principal: alice });
      const header = (name: string) => as(alice)[name];
      expect(await bodyOf(await sluice.host.redeem({ method: "GET", token, header }))).toBe(
        "0123456789",
      );
    }
    keep();
    await turn();
    collect();
    // the last one may still lie on the stack
    expect(held.filter((one) => one.deref()).length).toBeLessThanOrEqual(1);
  });

  test("is opened if it is asked for under another name, so that the rules are asked about that name", async () => {
    const asked: string[] = [];
    const { status, keep, opened } = await warmed({
      access: (_principal, uri) => (asked.push(uri), "allow"),
    });
    keep({ info: { key: "link.bin", size: 10, etag: "v1" }, bytes });
    await status();
    expect(opened).toEqual(["a.bin"]);
  });
});

describe("an answer from memory is refused at once", () => {
  const bob: Principal = { ...alice, subject: "bob" };

  test.each<
    [string, number, (keeper: Awaited<ReturnType<typeof warmed>>) => Promise<unknown> | void]
  >([
    ["to a revoked grant", 404, ({ sluice, id }) => sluice.revoke({ grant: id })],
    [
      "to the grants of a revoked principal",
      404,
      ({ sluice }) => sluice.revoke({ principal: alice }),
    ],
    [
      "to an expired grant",
      410,
      () => void vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 305_000 }),
    ],
    ["under another key of the same name", 404, ({ keys }) => keys.replace([generateKey()])],
    ["under a ring without its key", 404, ({ keys }) => keys.replace([generateKey({ kid: "k2" })])],
    ["of another version", 410, ({ keep }) => keep({ info: { ...first.info, etag: "v2" }, bytes })],
    [
      "of an object without a version",
      410,
      ({ keep }) => keep({ info: { key: "a.bin", size: 10 }, bytes }),
    ],
  ])("%s: %i", async (_what, expected, change) => {
    const keeper = await warmed();
    await change(keeper);
    expect(await keeper.status()).toBe(expected);
  });

  test("for another caller, and for no caller", async () => {
    const { status } = await warmed();
    expect(await status(as(bob))).toBe(404);
    expect(await status({})).toBe(401);
    expect(await status()).toBe(200);
  });

  test("for a token that differs in one bit, at any position", async () => {
    const { status, token } = await warmed({ rates: { failedRedemptions: false } });
    for (let at = 6; at < token.length; at++) {
      const flipped = String.fromCharCode(token.charCodeAt(at) ^ 1);
      expect(await status(as(alice), token.slice(0, at) + flipped + token.slice(at + 1))).toBe(404);
    }
    for (const near of [`${token}A`, token.slice(0, -1), ` ${token}`, token.toUpperCase()])
      expect(await status(as(alice), near)).toBe(404);
    expect(await status()).toBe(200);
  });

  test.each<[AccessDecision, number, boolean]>([
    ["hide", 404, false],
    ["hide", 404, true],
    ["deny", 404, false],
    ["deny", 404, true],
  ])("if rules return %s: %i (later: %s)", async (decision, expected, isLater) => {
    let decided: AccessDecision = "allow";
    const { status, opened } = await warmed({
      access: () => (isLater ? Promise.resolve(decided) : decided),
    });
    decided = decision;
    expect(await status()).toBe(expected);
    expect(opened).not.toContain("a.bin");
  });

  test("if a rule fails, and each response asks it once", async () => {
    let calls = 0;
    let isBroken = false;
    const { status } = await warmed({
      access: () => {
        calls++;
        if (isBroken) throw new Error("rules are down");
        return "allow";
      },
    });
    calls = 0;
    await status();
    expect(calls).toBe(1);
    isBroken = true;
    expect(await status()).toBe(500);
  });

  test("beyond the permits of a principal, which end with the answers", async () => {
    const { get, status } = await warmed({ limits: { streams: { perPrincipal: 1 } } });
    const held = await get();
    expect(await status()).toBe(429);
    held.transfer!.end({ outcome: "complete", bytes: 10 });
    expect(await status()).toBe(200);
  });

  test("if the client has disconnected, which uses up nothing", async () => {
    const { sluice, keys } = await warmed();
    const { token } = createSealer({ keys, audience: endpoint }).seal("download", {
      key: "a.bin",
      principal: alice,
      use: "once",
      etag: first.info.etag!,
    });
    const get = (signal?: AbortSignal) =>
      sluice.host.redeem({ method: "GET", token, header: (name) => as(alice)[name], signal });
    expect((await get(AbortSignal.abort())).status).toBe(503);
    expect(await bodyOf(await get())).toBe("0123456789");
    expect((await get()).status).toBe(404);
  });

  test("without a record where records are required", async () => {
    let isFull = false;
    const { status } = await warmed({
      audit: {
        required: true,
        sink: () => {
          if (isFull) throw new Error("disk full");
        },
      },
    });
    isFull = true;
    expect(await status()).toBe(503);
  });
});

test("each answer from memory is one audit record, with what was sent", async () => {
  const records: unknown[] = [];
  const { get, id } = await warmed({ audit: (record) => void records.push(record) });
  records.length = 0;
  const reply: Reply = await get();
  reply.transfer!.end({ outcome: "complete", bytes: 10 });
  reply.transfer!.end({ outcome: "failed", bytes: 0 });
  expect(records).toEqual([
    expect.objectContaining({
      action: "download",
      outcome: "complete",
      grant: id,
      uri: "files://demo/a.bin",
      bytes: 10,
    }),
  ]);
});

test("a refusal after the record of an answer was asked for is a record of its own each time", async () => {
  const records: unknown[] = [];
  const { sluice, keys } = createKeeper({
    anonymous: true,
    rates: { failedRedemptions: false },
    audit: (record) => void records.push(record),
  });
  const { token } = createSealer({ keys, audience: endpoint }).seal("download", {
    key: "a.bin",
    use: "once",
    etag: first.info.etag!,
  });
  const statuses: number[] = [];
  for (let round = 0; round < 8; round++) {
    const reply = await sluice.host.redeem({ method: "GET", token, header: () => undefined });
    await bodyOf(reply);
    statuses.push(reply.status);
  }
  expect(statuses).toEqual([200, ...Array<number>(7).fill(404)]);
  expect(records).toHaveLength(8);
});

test("an answer that its record forbids has no second record", async () => {
  let calls = 0;
  const { get } = createKeeper({
    audit: { required: true, sink: () => Promise.reject(new Error(`full ${++calls}`)) },
  });
  expect((await get(as(alice), undefined, "HEAD")).status).toBe(503);
  expect(calls).toBe(1);
});
