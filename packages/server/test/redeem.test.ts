import { principalTag, SluiceError, tokenLifetimes } from "@sluice/core";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend, protect, wrapBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, as, bodyOf, createHouse, headerOf, type House } from "./redeeming.ts";

const bound = (house: House, more: object = {}): string =>
  house.seal("download", { key: "a.bin", principal: alice, ...more }).token;

describe("redeeming a token", () => {
  test("If-Modified-Since is asked where there is no If-None-Match, by whole seconds (RFC 9110 §13.1.3)", async () => {
    const house = createHouse();
    const get = (headers: Record<string, string>) =>
      house.redeem(bound(house), { headers: { ...as(alice), ...headers } });
    const changed = headerOf(await get({}), "last-modified")!;
    const at = (ms: number): string => new Date(Date.parse(changed) + ms).toUTCString();
    const status = async (headers: Record<string, string>) => (await get(headers)).status;
    expect(await status({ "if-modified-since": changed })).toBe(304);
    expect(await status({ "if-modified-since": at(60_000) })).toBe(304);
    expect(await status({ "if-modified-since": at(-1_000) })).toBe(200);
    expect(await status({ "if-modified-since": "yesterday" })).toBe(200);
    expect(await status({ "if-modified-since": changed, "if-none-match": '"other"' })).toBe(200);
    expect(await status({ "if-modified-since": changed, range: "bytes=2-4" })).toBe(304);
  });

  test("its holder gets the bytes with the headers that describe and shield them", async () => {
    const house = createHouse();
    const reply = await house.redeem(bound(house), { headers: as(alice) });
    expect(reply.status).toBe(200);
    expect(await bodyOf(reply)).toBe("0123456789");
    expect(Object.fromEntries(pairs(reply.headers))).toMatchObject({
      "Content-Type": "application/octet-stream",
      "Content-Length": "10",
      "Content-Disposition": 'attachment; filename="a.bin"',
      "mcp-resource-uri": "files://demo/a.bin",
      "Accept-Ranges": "bytes",
      ETag: expect.stringMatching(/^".+"$/),
      "Repr-Digest": expect.stringMatching(/^sha-256=:.+:$/),
      "Cache-Control": "private, no-store, no-transform",
      "X-Content-Type-Options": "nosniff",
      "Cross-Origin-Resource-Policy": "same-origin",
      "Referrer-Policy": "no-referrer",
      Vary: "Origin",
    });
  });

  test("a satisfiable range is 206, one beyond the end 416 with the size, several are the whole", async () => {
    const house = createHouse();
    const get = (range: string, more = {}) =>
      house.redeem(bound(house), { headers: { ...as(alice), range, ...more } });
    const part = await get("bytes=2-4");
    expect([
      part.status,
      headerOf(part, "content-range"),
      headerOf(part, "content-length"),
    ]).toEqual([206, "bytes 2-4/10", "3"]);
    expect(await bodyOf(part)).toBe("234");
    const suffix = await get("bytes=-99");
    expect([suffix.status, await bodyOf(suffix)]).toEqual([206, "0123456789"]);
    const beyond = await get("bytes=10-");
    expect([beyond.status, headerOf(beyond, "content-range")]).toEqual([416, "bytes */10"]);
    expect((await get("bytes=0-1,4-5")).status).toBe(200);
    expect((await get("bytes=2-4", { "if-range": '"older"' })).status).toBe(200);
    const etag = headerOf(part, "etag")!;
    expect((await get("bytes=2-4", { "if-range": etag })).status).toBe(206);
    expect((await get("bytes=2-4", { "if-range": `W/${etag}` })).status).toBe(200);
    // a date is too weak to put two answers together by
    const changed = headerOf(await get("bytes=2-4"), "last-modified")!;
    expect((await get("bytes=2-4", { "if-range": changed })).status).toBe(200);
  });

  test("HEAD has the headers of GET and no bytes; an unchanged copy is 304", async () => {
    const house = createHouse();
    const head = await house.redeem(bound(house), { method: "HEAD", headers: as(alice) });
    expect([head.status, head.transfer, headerOf(head, "content-length")]).toEqual([
      200,
      undefined,
      "10",
    ]);
    const headers = { ...as(alice), "if-none-match": headerOf(head, "etag")! };
    const same = await house.redeem(bound(house), { headers });
    expect([same.status, same.transfer]).toEqual([304, undefined]);
    expect(headerOf(same, "etag")).toBe(headerOf(head, "etag"));
    for (const name of ["content-length", "content-type", "content-disposition", "repr-digest"])
      expect(headerOf(same, name)).toBeUndefined();
  });

  test("If-Match that does not name the version strongly is 412, with a range or without", async () => {
    const house = createHouse();
    const get = (headers: Record<string, string>, method: "GET" | "HEAD" = "GET") =>
      house.redeem(bound(house), { method, headers: { ...as(alice), ...headers } });
    const etag = headerOf(await get({}, "HEAD"), "etag")!;
    for (const match of ['"older"', `W/${etag}`, `W/${etag}, "older"`, "", "older"])
      for (const more of [{}, { range: "bytes=2-4" }, { "if-none-match": etag }]) {
        const reply = await get({ "if-match": match, ...more });
        expect([match, reply.status, reply.transfer]).toEqual([match, 412, undefined]);
        expect((await get({ "if-match": match }, "HEAD")).status).toBe(412);
      }
    for (const match of [etag, `"older", ${etag}`, "*"]) {
      expect(await bodyOf(await get({ "if-match": match }))).toBe("0123456789");
      expect(await bodyOf(await get({ "if-match": match, range: "bytes=2-4" }))).toBe("234");
      expect((await get({ "if-match": match, "if-none-match": etag })).status).toBe(304);
    }
    expect(house.records.filter(({ reason }) => reason === "precondition_failed")).toHaveLength(30);
  });

  test("If-Unmodified-Since of an earlier time is 412, unless If-Match is there to say more", async () => {
    const house = createHouse();
    const get = (headers: Record<string, string>) =>
      house.redeem(bound(house), { headers: { ...as(alice), ...headers } });
    const first = await get({});
    const changed = headerOf(first, "last-modified")!;
    const etag = headerOf(first, "etag")!;
    const earlier = new Date(Date.parse(changed) - 1_000).toUTCString();
    expect((await get({ "if-unmodified-since": earlier })).status).toBe(412);
    expect((await get({ "if-unmodified-since": earlier, "if-match": etag })).status).toBe(200);
    for (const time of [changed, "no date", "2026-11-22"])
      expect((await get({ "if-unmodified-since": time })).status).toBe(200);
  });

  test("a failed condition, like a 304, leaves a grant unused, and tells nothing without a live one", async () => {
    const house = createHouse();
    const once = bound(house, { use: "once" });
    const headers = { ...as(alice), "if-match": '"older"' };
    expect((await house.redeem(once, { headers })).status).toBe(412);
    expect(await bodyOf(await house.redeem(once, { headers: as(alice) }))).toBe("0123456789");
    expect((await house.redeem(once, { headers })).status).toBe(404);
  });

  test("a failed condition reads no bytes to find a media type", async () => {
    const backend = createMemoryBackend({ plain: "0123456789" });
    let opened = 0;
    const open: typeof backend.open = (...args) => {
      opened += 1;
      return backend.open(...args);
    };
    const house = createHouse({ storage: { ...backend, open } });
    const { token } = house.seal("download", { key: "plain", principal: alice });
    const headers = { ...as(alice), "if-match": '"older"' };
    expect((await house.redeem(token, { headers })).status).toBe(412);
    expect(opened).toBe(0);
  });

  test("types that a browser may run are sent as octets, unless exactTypes says otherwise", async () => {
    for (const name of ["x.html", "x.svg", "x.js", "x.pdf", "x.xml"]) {
      const storage = createMemoryBackend({ [name]: "<x/>" });
      const types = [false, true].map(async (exactTypes) => {
        const house = createHouse({ storage, exactTypes });
        const { token } = house.seal("download", { key: name, principal: alice });
        return headerOf(await house.redeem(token, { headers: as(alice) }), "content-type");
      });
      const [safe, exact] = await Promise.all(types);
      expect(safe).toBe("application/octet-stream");
      expect(exact).not.toBe(safe);
    }
  });
});

describe("refusals", () => {
  test("unknown, altered, foreign, consumed, deleted and denied are one answer, the same to the byte", async () => {
    const state = createMemoryStateStore();
    const house = createHouse({
      stores: { ...createMemoryStores(), state },
      access: (_principal, uri) => (uri.endsWith("b.bin") ? "deny" : "allow"),
    });
    const good = bound(house);
    const once = bound(house, { use: "once" });
    await bodyOf(await house.redeem(once, { headers: as(alice) }));
    const revoked = house.seal("download", { key: "a.bin", principal: alice });
    await state.revoke({ id: revoked.id }, { now: Date.now(), ttlMs: 300_000 });
    const answers = await Promise.all([
      house.redeem("v1.xx.unknown", { headers: as(alice) }),
      house.redeem("x".repeat(10_000), { headers: as(alice) }),
      house.redeem(
        good.replace(/.$/, (last) => (last === "A" ? "B" : "A")),
        { headers: as(alice) },
      ),
      house.redeem(good, { headers: as({ ...alice, subject: "mallory" }) }),
      house.redeem(once, { headers: as(alice) }),
      house.redeem(revoked.token, { headers: as(alice) }),
      house.redeem(bound(house, { key: "gone.bin" }), { headers: as(alice) }),
      house.redeem(bound(house, { key: "b.bin" }), { headers: as(alice) }),
      house.redeem(createHouse().seal("download", { key: "a.bin", principal: alice }).token, {
        headers: as(alice),
      }),
      house.redeem(house.seal("upload", { key: "a.bin", principal: alice }).token, {
        headers: as(alice),
      }),
    ]);
    expect(answers.map(({ status }) => status)).toEqual(answers.map(() => 404));
    expect(new Set(answers.map((reply) => JSON.stringify(reply))).size).toBe(1);
    expect(answers[0]?.text?.length).toBeLessThanOrEqual(512);
  });

  test("a bound token without a caller is 401 with a challenge, and says nothing about the object", async () => {
    const house = createHouse({
      resourceMetadataUrl: "https://mcp.example.com/.well-known/oauth-protected-resource",
    });
    for (const handle of ["a.bin", "gone.bin"]) {
      const reply = await house.redeem(bound(house, { handle }));
      expect(reply.status).toBe(401);
      expect(headerOf(reply, "www-authenticate")).toBe(
        'Bearer resource_metadata="https://mcp.example.com/.well-known/oauth-protected-resource"',
      );
    }
  });

  test("only the very principal may redeem: of every pair of holder and caller the diagonal passes", async () => {
    const house = createHouse();
    const people = ["alice", "bob"].flatMap((subject) =>
      ["https://a", "https://b"].flatMap((issuer) =>
        ["app", "cli"].map((clientId) => ({ issuer, subject, clientId })),
      ),
    );
    const tokens = people.map((principal) => bound(house, { principal }));
    for (const [holder, token] of tokens.entries())
      for (const [caller, principal] of people.entries()) {
        const { status } = await house.redeem(token, { method: "HEAD", headers: as(principal) });
        expect(status).toBe(holder === caller ? 200 : 404);
      }
  });

  test("a body opened for a URL of an earlier version is released", async () => {
    let cancelled = 0;
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
      open: (open) => async (key, options) => {
        const { info } = await open(key, options);
        const body = new ReadableStream<Uint8Array>({ cancel: () => void (cancelled += 1) });
        return { info, body };
      },
    });
    const house = createHouse({ storage });
    const terms = { key: "a.bin", principal: alice, etag: "earlier" };
    const { token } = house.seal("download", terms);
    expect((await house.redeem(token, { headers: as(alice) })).status).toBe(410);
    expect(cancelled).toBe(1);
  });

  test("expired and changed are 410 with their reason", async () => {
    const house = createHouse();
    const old = bound(house, { now: Date.now() - tokenLifetimes.download.bound.ttlMs - 60_000 });
    const expired = await house.redeem(old, { headers: as(alice) });
    expect([expired.status, JSON.parse(expired.text!)]).toEqual([
      410,
      expect.objectContaining({ reason: "expired", detail: expect.stringMatching(/new one/) }),
    ]);
    const { etag } = await house.storage.describe("a.bin");
    const pinned = bound(house, { etag });
    expect((await house.redeem(pinned, { method: "HEAD", headers: as(alice) })).status).toBe(200);
    house.storage.put("a.bin", "another version");
    for (const headers of [as(alice), { ...as(alice), range: "bytes=1-" }]) {
      const changed = await house.redeem(pinned, { headers });
      expect([changed.status, JSON.parse(changed.text!)]).toEqual([
        410,
        expect.objectContaining({ reason: "changed", detail: expect.stringMatching(/new one/) }),
      ]);
    }
  });

  test("a full process is 503, a principal with its share 429, both with Retry-After", async () => {
    const house = createHouse({ limits: { streams: { perPrincipal: 1, perProcess: 2 } } });
    const bob = { ...alice, subject: "bob" };
    const open = [await house.redeem(bound(house), { headers: as(alice) })];
    const second = await house.redeem(bound(house), { headers: as(alice) });
    expect([second.status, headerOf(second, "retry-after")]).toEqual([429, "1"]);
    open.push(await house.redeem(bound(house, { principal: bob }), { headers: as(bob) }));
    const carol = { ...alice, subject: "carol" };
    const third = await house.redeem(bound(house, { principal: carol }), { headers: as(carol) });
    expect([third.status, headerOf(third, "retry-after")]).toEqual([503, "1"]);
    for (const reply of open) await bodyOf(reply);
    expect((await house.redeem(bound(house), { headers: as(alice) })).status).toBe(200);
  });

  test("a state store that is down means 503, never bytes", async () => {
    const state: StateStore = {
      ...createMemoryStateStore(),
      claim: () => Promise.reject(new SluiceError("unavailable", "store: down")),
    };
    const house = createHouse({ stores: { ...createMemoryStores(), state } });
    const reply = await house.redeem(bound(house), { headers: as(alice) });
    expect([reply.status, reply.transfer]).toEqual([503, undefined]);
    expect(house.errors).toHaveLength(1);
  });

  test("an object whose headers cannot be made is released, and so is its permit", async () => {
    let cancelled = 0;
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
      open: (open) => async (key, options) => {
        const { info } = await open(key, options);
        const body = new ReadableStream<Uint8Array>({ cancel: () => void (cancelled += 1) });
        return { info: { ...info, digests: { sha256: "no hex" } }, body };
      },
    });
    const house = createHouse({ storage, limits: { streams: { perPrincipal: 1 } } });
    for (const tries of [1, 2]) {
      expect((await house.redeem(bound(house), { headers: as(alice) })).status).toBe(500);
      expect(cancelled).toBe(tries);
    }
  });

  test("faults of storage keep their cause to themselves", async () => {
    const secret = "/srv/secret/path";
    const codes = {
      permission_denied: 404,
      unauthenticated: 503,
      timeout: 504,
      corrupt: 502,
      internal: 500,
    } as const;
    for (const [code, status] of Object.entries(codes)) {
      const open = () =>
        Promise.reject(new SluiceError(code as keyof typeof codes, `fs: ${secret}`));
      const storage = { ...createMemoryBackend(), open };
      const house = createHouse({ storage: protect(storage, { maxAttempts: 1 }) });
      const reply = await house.redeem(bound(house), { headers: as(alice) });
      expect([code, reply.status]).toEqual([code, status]);
      expect(JSON.stringify(reply)).not.toContain(secret);
    }
  });
});

describe("how often a grant works", () => {
  test("once: one body; HEAD, 304, 416 and a failed open leave it alone", async () => {
    let isDown = false;
    const storage = wrapBackend(createMemoryBackend({ "a.bin": "0123456789" }), {
      open: (open) => async (key, options) => {
        if (isDown) throw new SluiceError("unavailable", "memory: down");
        return open(key, options);
      },
    });
    const house = createHouse({ storage: protect(storage, { maxAttempts: 1 }) });
    const once = bound(house, { use: "once" });
    const ask = (method: "GET" | "HEAD", more: Record<string, string> = {}) =>
      house.redeem(once, { method, headers: { ...as(alice), ...more } });
    const head = await ask("HEAD");
    expect(headerOf(head, "accept-ranges")).toBe("none");
    await ask("GET", { "if-none-match": headerOf(head, "etag")! });
    await ask("GET", { range: "bytes=99-" });
    isDown = true;
    expect((await ask("GET")).status).toBe(503);
    isDown = false;
    expect(await bodyOf(await ask("GET"))).toBe("0123456789");
    expect((await ask("GET")).status).toBe(404);
  });

  test("exactly one of many simultaneous redemptions of a once grant gets bytes", async () => {
    const house = createHouse();
    const once = bound(house, { use: "once" });
    const replies = await Promise.all(
      Array.from({ length: 8 }, () => house.redeem(once, { headers: as(alice) })),
    );
    expect(replies.filter(({ status }) => status === 200)).toHaveLength(1);
  });

  const mebibyte = createMemoryBackend({ "a.bin": "x".repeat(1_048_576) });

  test("lease: a reader may begin at the end, read in any order and look again", async () => {
    const house = createHouse();
    const lease = bound(house, { use: "lease" });
    const get = async (range?: string) =>
      bodyOf(await house.redeem(lease, { headers: { ...as(alice), ...(range && { range }) } }));
    expect(await get("bytes=-3")).toBe("789");
    expect(await get("bytes=6-")).toBe("6789");
    expect(await get()).toBe("0123456789");
    for (let n = 0; n < 50; n++) expect(await get(`bytes=${n % 10}-${n % 10}`)).toBe(`${n % 10}`);
    expect(await get()).toBe("0123456789");
  });

  test("lease: its answers together have no more than four times the object and a MiB", async () => {
    const house = createHouse({ storage: mebibyte });
    const lease = bound(house, { use: "lease" });
    const get = (headers: object = {}) =>
      house.redeem(lease, { headers: { ...as(alice), ...headers } });
    const replies = await Promise.all(Array.from({ length: 8 }, () => get()));
    const served = replies.filter(({ status }) => status === 200);
    expect([served.length, replies.length]).toEqual([5, 8]);
    for (const reply of replies) await bodyOf(reply);
    expect((await get({ range: "bytes=0-0" })).status).toBe(404);
    expect((await get({ "if-none-match": "*" })).status).toBe(404);
  });

  test("lease: a broken answer counts for what was sent of it, one that nginx sends for all of it", async () => {
    const house = createHouse({ storage: mebibyte });
    const end = async (token: string, outcome: "aborted" | "offloaded", bytes: number) => {
      const { transfer, status } = await house.redeem(token, { headers: as(alice) });
      await transfer?.source.body.cancel();
      transfer?.end({ outcome, bytes });
      return status;
    };
    const lease = bound(house, { use: "lease" });
    for (let n = 0; n < 100; n++) expect(await end(lease, "aborted", 3)).toBe(200);
    for (let n = 0; n < 3; n++) expect(await end(lease, "aborted", 1_048_576)).toBe(200);
    const other = bound(house, { use: "lease" });
    for (let n = 0; n < 5; n++) expect(await end(other, "offloaded", 0)).toBe(200);
    expect(await end(other, "offloaded", 0)).toBe(404);
  });

  test("a self-authenticating token needs nobody, and a session-bound one ends with its session", async () => {
    const house = createHouse();
    const self = house.seal("download", { key: "a.bin" }).token;
    expect(await bodyOf(await house.redeem(self))).toBe("0123456789");
    const session = { principal: { ...alice, sessionId: "s-1" }, mayMint: true, maxTtlMs: 60_000 };
    const { token } = (await house.sluice.host.mint(session, "a.bin", undefined))!;
    const ask = (sessionId?: string) =>
      house.redeem(token, { method: "HEAD", headers: as(alice), sessionId });
    expect((await ask("s-1")).status).toBe(200);
    expect((await ask("s-2")).status).toBe(404);
    // the user is known without the session
    expect((await ask()).status).toBe(200);
    await house.sluice.endSession("s-1");
    await house.sluice.endSession("s-1");
    for (const sessionId of ["s-1", undefined]) expect((await ask(sessionId)).status).toBe(404);
  });

  test("a URL of a session without a user is good in that session alone, and for no caller without it", async () => {
    const house = createHouse({
      principal: undefined as never,
      endpoint: "http://127.0.0.1:1/mcp",
    });
    const anonymous = await house.sluice.host.identify({
      sessionId: "s-1",
      header: () => undefined,
    });
    const { token } = (await house.sluice.host.mint(anonymous, "a.bin", undefined))!;
    const ask = async (sessionId?: string, headers: Record<string, string> = {}) =>
      (await house.redeem(token, { method: "HEAD", headers, sessionId })).status;
    const bearer = { authorization: "Bearer any" };
    expect(await Promise.all([ask("s-1"), ask("s-2"), ask()])).toEqual([200, 404, 401]);
    expect(await Promise.all([ask(undefined, bearer), ask("s-1", bearer)])).toEqual([404, 404]);
  });
});

describe("identity", () => {
  test("a session header does not change who the caller is if the grant is not bound to it: for limits, rules, revocation and records", async () => {
    const state = createMemoryStateStore();
    const asked: unknown[] = [];
    const house = createHouse({
      stores: { ...createMemoryStores(), state },
      limits: { streams: { perPrincipal: 1 } },
      access: (principal) => {
        asked.push(principal);
        return "allow";
      },
    });
    const token = bound(house);
    const ask = (sessionId: string) => house.redeem(token, { headers: as(alice), sessionId });
    const first = await ask("made-up-1");
    expect((await ask("made-up-2")).status).toBe(429);
    await bodyOf(first);
    await state.revoke({ principal: principalTag(alice) }, { now: Date.now(), ttlMs: 300_000 });
    expect((await ask("made-up-3")).status).toBe(404);
    expect(asked).toEqual(asked.map(() => alice));
    expect(new Set(house.records.map(({ principal }) => principal))).toEqual(
      new Set([principalTag(alice)]),
    );
  });

  test("the sessions of one user share its limit and end with its revocation", async () => {
    const state = createMemoryStateStore();
    const house = createHouse({
      stores: { ...createMemoryStores(), state },
      limits: { streams: { perPrincipal: 1 } },
    });
    const ask = (sessionId: string) =>
      house.redeem(bound(house, { principal: { ...alice, sessionId } }), {
        headers: as(alice),
        sessionId,
      });
    const first = await ask("s-1");
    expect((await ask("s-2")).status).toBe(429);
    await bodyOf(first);
    await state.revoke({ principal: principalTag(alice) }, { now: Date.now(), ttlMs: 300_000 });
    expect((await ask("s-1")).status).toBe(404);
  });

  test("a grant that was revoked or spent tells nothing any more, also not to HEAD or as a 304", async () => {
    const state = createMemoryStateStore();
    const house = createHouse({ stores: { ...createMemoryStores(), state } });
    const { id, token: revoked } = house.seal("download", { key: "a.bin", principal: alice });
    const head = await house.redeem(revoked, { method: "HEAD", headers: as(alice) });
    const etag = headerOf(head, "etag")!;
    await state.revoke({ id }, { now: Date.now(), ttlMs: 300_000 });
    const once = bound(house, { use: "once" });
    await bodyOf(await house.redeem(once, { headers: as(alice) }));
    for (const token of [revoked, once]) {
      expect((await house.redeem(token, { method: "HEAD", headers: as(alice) })).status).toBe(404);
      const headers = { ...as(alice), "if-none-match": etag };
      expect((await house.redeem(token, { headers })).status).toBe(404);
    }
  });
});

describe("the audit trail", () => {
  test("has exactly one record for each redemption, whatever became of it, and no token", async () => {
    const house = createHouse();
    const tokens = [bound(house), bound(house), bound(house, { key: "gone.bin" }), "nonsense"];
    const replies = await Promise.all(
      tokens.map((token) => house.redeem(token, { headers: as(alice) })),
    );
    await bodyOf(replies[0]!);
    replies[1]!.transfer!.end({ outcome: "aborted", bytes: 4 });
    replies[1]!.transfer!.end({ outcome: "complete", bytes: 10 });
    expect(house.records.map(({ outcome, bytes, reason }) => ({ outcome, bytes, reason }))).toEqual(
      expect.arrayContaining([
        { outcome: "complete", bytes: 10, reason: undefined },
        { outcome: "aborted", bytes: 4, reason: undefined },
        { outcome: "denied", bytes: 0, reason: "not_found" },
        { outcome: "denied", bytes: 0, reason: "not_found" },
      ]),
    );
    expect(house.records).toHaveLength(tokens.length);
    const text = JSON.stringify(house.records);
    for (const token of tokens.slice(0, 3)) expect(text).not.toContain(token.slice(6, 18));
  });

  test("a sink that throws harms nobody", async () => {
    const house = createHouse({
      audit: () => {
        throw new Error("disk full");
      },
    });
    expect(await bodyOf(await house.redeem(bound(house), { headers: as(alice) }))).toBe(
      "0123456789",
    );
    expect(house.errors).toHaveLength(1);
  });
});

function pairs(headers: readonly string[]): [string, string][] {
  return Array.from({ length: headers.length / 2 }, (_, at) => [
    headers[2 * at]!,
    headers[2 * at + 1]!,
  ]);
}
