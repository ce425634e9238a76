import { createKeyRing, generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import type { AuditRecord, SluiceOptions } from "@sluice/server";
import { describe, expect, test } from "vitest";
import { alice, bodyOf, createHouse, headerOf } from "./redeeming.ts";

const uri = "files://demo/a.bin";
const anonymousCaller = { header: () => undefined };
const aliceCaller = {
  header: (name: string) => ({ "x-subject": alice.subject })[name],
};

/** A Sluice with links for the subject of a header, and what opens them. */
function linking(options: Partial<SluiceOptions> = {}) {
  const house = createHouse({
    links: {},
    stores: createMemoryStores(),
    principal: ({ header }) => {
      const subject = header("x-subject");
      return subject === undefined ? undefined : { ...alice, subject };
    },
    ...options,
  } as Partial<SluiceOptions>);
  const { sluice } = house;
  return {
    ...house,
    link: (more: object = {}) => sluice.link(uri, { caller: aliceCaller, ...more }),
    follow: (url: string, headers: Record<string, string> = {}, method: "GET" | "HEAD" = "GET") =>
      sluice.host.redeem({
        kind: "link",
        method,
        token: url.slice(url.lastIndexOf("/") + 1),
        header: (name) => headers[name],
      }),
  };
}

describe("a link", () => {
  test("opens without credentials, as often as wanted, in ranges, with the headers for every page", async () => {
    const { link, follow } = linking();
    const { url, ...facts } = await link();
    expect(facts).toMatchObject({
      resourceUri: uri,
      name: "a.bin",
      mimeType: "application/octet-stream",
      size: 10,
      use: "window",
    });
    for (let n = 0; n < 30; n++) {
      const part = await follow(url, { range: `bytes=${n % 10}-` });
      expect([part.status, await bodyOf(part)]).toEqual([206, "0123456789".slice(n % 10)]);
    }
    const whole = await follow(url);
    expect(headerOf(whole, "cross-origin-resource-policy")).toBe("cross-origin");
    expect(headerOf(whole, "content-disposition")).toBe('attachment; filename="a.bin"');
    expect(await bodyOf(whole)).toBe("0123456789");
  });

  test("has at most 60 characters of path and token where a store is given, and carries all that it permits elsewhere", async () => {
    const stored = await linking().link();
    expect(new URL(stored.url).pathname.length).toBeLessThanOrEqual(60);
    expect(new URL(stored.url).pathname).toMatch(/^\/mcp\/d\/[\w-]{32}$/);
    const ephemeral = createHouse({ links: {}, anonymous: true, keys: "ephemeral" });
    const short = await ephemeral.sluice.link(uri, { caller: anonymousCaller });
    expect(short.url).toMatch(/\/d\/[\w-]{32}$/);

    const keys = createKeyRing([generateKey()]);
    const storage = createMemoryBackend({ "a.bin": "0123456789" });
    const one = createHouse({ links: {}, anonymous: true, keys, storage });
    const other = createHouse({ links: {}, anonymous: true, keys, storage });
    const sealed = await one.sluice.link(uri, { caller: anonymousCaller });
    const token = sealed.url.slice(sealed.url.lastIndexOf("/") + 1);
    const redeemed = await other.sluice.host.redeem({
      kind: "link",
      method: "GET",
      token,
      header: () => undefined,
    });
    expect(await bodyOf(redeemed)).toBe("0123456789");
  });

  test("acts for its minter: the rule is asked again, with the claims that the minter had", async () => {
    const asked: unknown[] = [];
    let decision: "allow" | "hide" | "deny" = "allow";
    const { link, follow } = linking({
      principal: () => ({ ...alice, claims: { role: "doctor" }, scopes: ["read"] }),
      access(who, _uri, action) {
        asked.push([who?.subject, who?.claims, who?.scopes, action]);
        return decision;
      },
    });
    const { url } = await link();
    expect((await follow(url)).status).toBe(200);
    expect(new Set(asked.map((each) => JSON.stringify(each)))).toEqual(
      new Set([JSON.stringify([alice.subject, { role: "doctor" }, ["read"], "stream"])]),
    );
    const unknown = await follow("http://h/mcp/d/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA");
    for (decision of ["hide", "deny"] as const) expect(await follow(url)).toEqual(unknown);
    expect(unknown.status).toBe(404);
  });

  test("is not made for what the caller may not have, nor for a caller that is unknown, nor where links are off", async () => {
    const hidden = linking({ access: () => "hide" });
    const code = (promise: Promise<unknown>) =>
      promise.then(
        () => "made",
        (error: { code: string; message: string }) => `${error.code} ${error.message}`,
      );
    const missing = await code(
      linking().sluice.link("files://demo/none.bin", { caller: aliceCaller }),
    );
    expect(await code(hidden.link())).toBe(missing.replace("none.bin", "a.bin"));
    expect(await code(linking({ access: () => "deny" }).link())).toMatch(/^permission_denied /);
    expect(await code(linking().sluice.link(uri, { caller: anonymousCaller }))).toMatch(
      /^unauthenticated /,
    );
    const off = createHouse({ anonymous: true });
    expect(await code(off.sluice.link(uri, { caller: anonymousCaller }))).toMatch(/^unsupported /);
    expect(await code(linking({ describe: () => ({ streamable: false }) }).link())).toMatch(
      /^unsupported |^not_found /,
    );
  });

  test("dies with revoke of its token, its id, its principal and its resource, and with its session and its key", async () => {
    const state = createMemoryStateStore();
    const keys = createKeyRing([generateKey({ kid: "k1" })]);
    const { link, follow, sluice } = linking({ stores: { ...createMemoryStores(), state }, keys });
    const inSession = { caller: { ...aliceCaller, sessionId: "s-1" } };
    const made = async (more: object = {}) => {
      const fresh = await sluice.link(uri, { caller: aliceCaller, ...more });
      expect((await follow(fresh.url)).status).toBe(200);
      return fresh;
    };
    const tokenOf = ({ url }: { url: string }) => url.slice(url.lastIndexOf("/") + 1);

    const other = await link();
    const byToken = await made();
    await sluice.revoke({ token: tokenOf(byToken) });
    expect((await follow(byToken.url)).status).toBe(404);
    const byId = await made();
    await sluice.revoke({ grant: byId.id });
    expect((await follow(byId.url)).status).toBe(404);
    expect((await follow(other.url)).status).toBe(200);

    const session = await made(inSession);
    await sluice.endSession("s-1");
    expect((await follow(session.url)).status).toBe(404);
    expect((await follow(other.url)).status).toBe(200);

    keys.replace([generateKey({ kid: "k1" })]);
    expect((await follow(other.url)).status).toBe(404);
    const [byPrincipal, byResource] = [await made(), await made()];
    await sluice.revoke({ resource: uri });
    expect((await follow(byResource.url)).status).toBe(404);
    await sluice.revoke({ principal: alice });
    expect((await follow(byPrincipal.url)).status).toBe(404);
  });

  test("dies with its principal alone: other principals' links to the same resource go on", async () => {
    const { sluice, link, follow } = linking();
    const bobs = await sluice.link(uri, {
      caller: { header: (name: string) => ({ "x-subject": "bob" })[name] },
    });
    const { url } = await link();
    expect((await follow(url)).status).toBe(200);
    await sluice.revoke({ principal: alice });
    expect((await follow(url)).status).toBe(404);
    expect((await follow(bobs.url)).status).toBe(200);
  });

  test("lives no longer than 15 minutes, nor than the access token", async () => {
    const { sluice } = linking({ principal: () => alice });
    const now = Date.now();
    const expiresAt = Math.floor(now / 1_000) + 60;
    const authInfo = { token: "t", clientId: "c", scopes: [], expiresAt };
    const short = await sluice.link(uri, { caller: { ...anonymousCaller, authInfo } });
    expect(short.expiresAt).toBeLessThanOrEqual(expiresAt * 1_000);
    const long = await sluice.link(uri, { caller: anonymousCaller });
    expect(long.expiresAt - now).toBeLessThanOrEqual(900_000);
    await expect(sluice.link(uri, { caller: anonymousCaller, ttlMs: 900_001 })).rejects.toThrow(
      /1000 to 900000/,
    );
  });

  test("once gives its bytes once; HEAD and a bad range use nothing up", async () => {
    const { link, follow } = linking({ links: { use: "once" } });
    const { url, use } = await link();
    expect(use).toBe("once");
    expect((await follow(url, {}, "HEAD")).status).toBe(200);
    expect((await follow(url, { range: "bytes=99-" })).status).toBe(416);
    const both = await Promise.all([follow(url), follow(url)]);
    expect(both.map(({ status }) => status).toSorted((a, b) => a - b)).toEqual([200, 404]);
  });

  test("inline is shown where a browser can, and never for what a browser may run", async () => {
    const storage = createMemoryBackend({
      "a.pdf": "%PDF-1.4\n",
      "a.html": "<script>alert(1)</script>",
    });
    const { sluice, follow } = linking({ storage, exactTypes: true });
    const shown = async (name: string) => {
      const { url } = await sluice.link(`files://demo/${name}`, {
        caller: aliceCaller,
        disposition: "inline",
      });
      const reply = await follow(url);
      return [
        headerOf(reply, "content-disposition"),
        headerOf(reply, "content-security-policy")!.includes("sandbox"),
      ];
    };
    expect(await shown("a.pdf")).toEqual(['inline; filename="a.pdf"', false]);
    expect(await shown("a.html")).toEqual(['attachment; filename="a.html"', true]);
  });

  test("has its making and its redemption in the audit trail under one id, and no token", async () => {
    const records: AuditRecord[] = [];
    const { link, follow } = linking({ audit: (record) => void records.push(record) });
    const { url, id } = await link();
    await bodyOf(await follow(url));
    expect(
      records.map(({ action, outcome, mode, grant }) => [action, outcome, mode, grant]),
    ).toEqual([
      ["link", "issued", "link", id],
      ["download", "complete", "link", id],
    ]);
    expect(new Set(records.map(({ principal }) => principal)).size).toBe(1);
    expect(JSON.stringify(records)).not.toContain(url.slice(url.lastIndexOf("/") + 1));
  });

  test("is not a download URL, and a download URL is not a link", async () => {
    const house = linking();
    const { url } = await house.link();
    const asGrant = await house.redeem(url.slice(url.lastIndexOf("/") + 1), {
      headers: { "x-subject": alice.subject },
    });
    expect(asGrant.status).toBe(404);
    const { token } = house.seal("download", { key: "a.bin" });
    expect((await house.follow(`http://h/mcp/d/${token}`)).status).toBe(404);
  });

  test("needs a store that can withdraw it", () => {
    expect(() => linking({ grant: { revocable: false } })).toThrow(/revocable/);
    expect(() => linking({ links: { ttlMs: 10 } })).toThrow(RangeError);
    expect(() => linking({ links: { use: "lease" as never } })).toThrow(TypeError);
  });
});
