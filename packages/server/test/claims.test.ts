import type { AuthInfo } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import type { AccessAction, AuditRecord, Caller, SluiceOptions } from "@sluice/server";
import { tagOf } from "@sluice/server/internal";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createMemoryBackend } from "@sluice/storage";
import { describe, expect, test } from "vitest";
import { alice, bodyOf, createHouse } from "./redeeming.ts";
import { eras, talkTo, type Exchange } from "./talking.ts";

/** Personal data that must be found nowhere but in front of a rule. */
const secret = "patient-4711";

/** A verified access token, of Alice unless it says another subject. */
function tokenWith(extra: Record<string, unknown> | undefined, scopes: string[] = []): AuthInfo {
  const authInfo = { token: "t", clientId: alice.clientId, scopes };
  return extra ? { ...authInfo, extra: { sub: alice.subject, ...extra } } : authInfo;
}

function callerWith(authInfo?: AuthInfo, headers: Record<string, string> = {}): Caller {
  return { authInfo, sessionId: undefined, header: (name) => headers[name] };
}

async function principalOf(
  resolve: SluiceOptions["principal"],
  caller: Caller,
): Promise<Principal | undefined> {
  // without one where it is undefined
  const anonymous = resolve === undefined;
  const { sluice } = createHouse({ principal: resolve, anonymous } as Partial<SluiceOptions>);
  const { principal, owner } = await sluice.host.identify(caller);
  expect(owner === undefined || owner === tagOf(principal)).toBe(true);
  return principal;
}

describe("the scopes and claims of a principal", () => {
  test("are those that the resolver gives, each for itself", async () => {
    const given = { ...alice, scopes: ["own"], claims: { role: "own" } };
    const caller = callerWith(tokenWith({ role: "token" }, ["token"]));
    expect(await principalOf(() => given, caller)).toBe(given);
    expect(await principalOf(() => ({ ...alice, scopes: [] }), caller)).toEqual({
      ...alice,
      scopes: [],
      claims: { sub: "alice", role: "token" },
    });
    expect(await principalOf(async () => ({ ...alice, claims: {} }), caller)).toEqual({
      ...alice,
      scopes: ["token"],
      claims: {},
    });
  });

  test("are else those of the verified access token, whose subject the principal is", async () => {
    const extra = { sub: "alice", iss: alice.issuer, role: "PI" };
    const scopes = ["trials:read"];
    const authInfo = { token: "t", clientId: "app", scopes, extra };
    expect(await principalOf(() => alice, callerWith(authInfo))).toEqual({
      ...alice,
      scopes,
      claims: extra,
    });
    // a client that acts for itself has a token without `sub`
    const service = { issuer: "i", subject: "robot", clientId: "robot" };
    const own = { token: "t", clientId: "robot", scopes };
    expect(await principalOf(() => service, callerWith(own))).toEqual({ ...service, scopes });
  });

  test.each<[string, AuthInfo]>([
    ["another subject", tokenWith({ sub: "gateway", role: "PI" }, ["all"])],
    ["another issuer", tokenWith({ iss: "https://other.example", role: "PI" }, ["all"])],
    ["a client alone", tokenWith(undefined, ["all"])],
    ["a subject that is not a string", tokenWith({ sub: ["alice"], role: "PI" }, ["all"])],
  ])("are absent if the access token is of %s", async (_name, authInfo) => {
    const principal = await principalOf(() => alice, callerWith(authInfo));
    expect(principal).toBe(alice);
  });

  test("are never taken from an unverified bearer token", async () => {
    const claims = { sub: "alice", role: "PI", scope: "all" };
    const unsigned = `e30.${Buffer.from(JSON.stringify(claims)).toString("base64url")}.`;
    const headers = { authorization: `Bearer ${unsigned}` };
    const principal = await principalOf(undefined, callerWith(undefined, headers));
    expect(principal?.subject).toMatch(/^[0-9a-f]{64}$/);
    expect([principal?.scopes, principal?.claims]).toEqual([undefined, undefined]);
    // the twin: the same token, verified by middleware
    const authInfo = { token: unsigned, clientId: "app", scopes: ["all"], extra: claims };
    expect(await principalOf(undefined, callerWith(authInfo, headers))).toEqual({
      ...principal!,
      scopes: ["all"],
      claims,
    });
  });

  test("change neither the session nor the share of a caller", async () => {
    const { sluice } = createHouse({ principal: () => alice });
    const tokens = [undefined, tokenWith({ role: "PI" }), tokenWith({ role: "nurse" })];
    const [plain, ...others] = await Promise.all(
      tokens.map(async (authInfo) =>
        sluice.host.identify({ ...callerWith(authInfo), sessionId: "s-1" }),
      ),
    );
    expect(plain).toMatchObject({ principal: { ...alice, sessionId: "s-1" } });
    for (const { owner, principal } of others) {
      expect(owner).toBe(plain!.owner);
      expect(principal).toMatchObject({ ...alice, sessionId: "s-1" });
      expect(tagOf(principal)).toBe(tagOf(plain!.principal));
    }
  });

  test("leave the principal of the resolver the same object where nothing is added", async () => {
    expect(await principalOf(() => alice, callerWith())).toBe(alice);
  });
});

const uri = "files://demo/a.bin";

/** The token of the download URL that a call gave; `none` if it gave none. */
function tokenIn({ message }: Exchange): string {
  return String(message.result?.downloadUrl ?? "none")
    .split("/")
    .at(-1)!;
}

/** Alice's files are seen by her role: `owner` sees all, any other role none. */
function createRoles(options: Partial<SluiceOptions> = {}) {
  const asked: { action: AccessAction | "page" | "storage" | "delivery"; role: unknown }[] = [];
  const note = (action: (typeof asked)[number]["action"], principal?: Principal): boolean => {
    const role = principal?.claims?.["role"];
    asked.push({ action, role });
    return role === "owner";
  };
  const files = createMemoryBackend({ "a.bin": "0123456789", "b.bin": "other" });
  const house = createHouse({
    principal: () => alice,
    storage: (principal) => {
      note("storage", principal);
      return files;
    },
    access: (principal, _uri, action) => (note(action, principal) ? "allow" : "hide"),
    accessPage: (principal, uris) => uris.map(() => (note("page", principal) ? "allow" : "hide")),
    delivery: ({ principal }) => {
      note("delivery", principal);
      return "downloadUrl";
    },
    ...options,
  } as Partial<SluiceOptions>);
  return { ...house, asked, files, call: talkTo(house.sluice) };
}

const asOwner = tokenWith({ role: "owner", patient: secret }, [secret]);
const asGuest = tokenWith({ role: "guest", patient: secret }, [secret]);

test.each(eras)(
  "%s: access rules, storage and delivery see the claims of the request, and of no other one",
  async (era) => {
    const { call, asked } = createRoles();
    for (const [authInfo, role] of [
      [asOwner, "owner"],
      [asGuest, "guest"],
    ] as const) {
      asked.length = 0;
      const sees = role === "owner";
      const list = await call(era, "resources/list", { authInfo });
      expect(list.message.result.resources).toHaveLength(sees ? 2 : 0);
      const read = await call(era, "resources/read", { params: { uri }, authInfo });
      expect(read.message.result !== undefined).toBe(sees);
      const stream = await call(era, "resources/stream", { params: { uri }, authInfo });
      expect(stream.message.result !== undefined).toBe(sees);
      const ref = { type: "ref/resource", uri: "files://demo/{+key}" };
      const params = { ref, argument: { name: "key", value: "" } };
      const completion = await call(era, "completion/complete", { params, authInfo });
      expect(completion.message.result.completion.values).toHaveLength(sees ? 2 : 0);
      const actions = new Set(asked.map(({ action }) => action));
      const always = ["storage", "page", "read", "stream"] as const;
      expect([...actions]).toEqual(
        expect.arrayContaining(sees ? [...always, "delivery"] : [...always]),
      );
      expect(asked.filter((each) => each.role !== role)).toEqual([]);
    }
  },
);

test("a download URL is redeemed with the claims of the request that redeems it", async () => {
  const house = createRoles();
  const params = { uri };
  const stream = await house.call("modern", "resources/stream", { params, authInfo: asOwner });
  const token = tokenIn(stream);
  expect((await house.redeem(token, { authInfo: asGuest })).status).toBe(404);
  expect((await house.redeem(token, {})).status).toBe(404);
  const reply = await house.redeem(token, { authInfo: asOwner });
  expect([reply.status, await bodyOf(reply)]).toEqual([200, "0123456789"]);
  // the other way round: what the URL was made with does not count
  const guest = await house.sluice.host.identify(callerWith(asGuest));
  const minted = await house.sluice.host.mint(guest, "a.bin", undefined);
  expect((await house.redeem(minted!.token, { authInfo: asGuest })).status).toBe(404);
  expect((await house.redeem(minted!.token, { authInfo: asOwner })).status).toBe(200);
});

test("a URL of one storage gives no bytes of the same key in another one if claims choose the storage", async () => {
  const storages = new Map([
    ["owner", createMemoryBackend({ "a.bin": "of the owner" })],
    ["guest", createMemoryBackend({ "a.bin": "of the guest" })],
  ]);
  const house = createHouse({
    principal: () => alice,
    storage: (principal) => storages.get(String(principal?.claims?.["role"]))!,
  });
  const { sluice } = house;
  const identity = await sluice.host.identify(callerWith(asOwner));
  const { principal } = identity;
  const asked = { principal, name: "a.bin", action: "stream" } as const;
  const { storage } = await sluice.host.authorize(asked);
  const { etag } = await storage.describe("a.bin");
  const minted = await sluice.host.mint(identity, "a.bin", etag);
  const [refused, own] = [
    await house.redeem(minted!.token, { authInfo: asGuest }),
    await house.redeem(minted!.token, { authInfo: asOwner }),
  ];
  expect(refused.status).toBe(410);
  expect(await bodyOf(refused)).not.toContain("guest");
  expect([own.status, await bodyOf(own)]).toEqual([200, "of the owner"]);
});

test("a self-authenticating URL has no principal, and the claims of its bearer do not count", async () => {
  const house = createRoles();
  const terms = { mayMint: true, maxTtlMs: 60_000 };
  const minted = await house.sluice.host.mint(terms, "a.bin", undefined);
  expect((await house.redeem(minted!.token, { authInfo: asOwner })).status).toBe(404);
  expect(house.asked.length).toBeGreaterThan(0);
  expect(house.asked.filter(({ role }) => role !== undefined)).toEqual([]);
});

test("a listen stream acts for the claims of the request that opened it", async () => {
  const { sluice, files, asked, call } = createRoles();
  const params = { notifications: { resourceSubscriptions: [uri] } };
  const listening = await sluice.host.listen({ id: 1, params, caller: callerWith(asOwner) });
  if (!("close" in listening)) throw new Error("it was refused");
  // the same user, who has lost the role, calls meanwhile
  await call("modern", "resources/list", { authInfo: asGuest });
  asked.length = 0;
  const told = listening.next();
  const change = setInterval(() => files.put("a.bin", String(Math.random())), 10);
  expect(await told).toMatchObject({ method: "notifications/resources/updated", params: { uri } });
  clearInterval(change);
  listening.close();
  expect(new Set(asked.map(({ role }) => role))).toEqual(new Set(["owner"]));
});

/** A store that keeps what it was given as text. */
function listeningStore(): { state: StateStore; heard: string[] } {
  const heard: string[] = [];
  const state = new Proxy(createMemoryStateStore(), {
    get(target, name: keyof StateStore) {
      const member: unknown = target[name];
      if (typeof member !== "function") return member;
      return (...given: unknown[]) => {
        heard.push(`store ${name} ${textOf(given)}`);
        return (member as (...all: unknown[]) => unknown).apply(target, given);
      };
    },
  });
  return { state, heard };
}

function textOf(value: unknown): string {
  return JSON.stringify(value, (_key, part: unknown) =>
    part instanceof Uint8Array ? Buffer.from(part).toString("latin1") : part,
  );
}

/** All that a Sluice writes anywhere while Alice works in both roles: audit records, state, reports. */
async function writtenBy(options: Partial<SluiceOptions>): Promise<string[]> {
  const { state, heard } = listeningStore();
  const sink = (record: AuditRecord): void => void heard.push(`audit ${textOf(record)}`);
  const house = createRoles({
    stores: { ...createMemoryStores(), state },
    audit: { sink, required: true, addresses: true },
    onWarning: (message) => void heard.push(`warning ${message}`),
    ...options,
  });
  for (const era of eras)
    for (const authInfo of [asOwner, asGuest]) {
      await house.call(era, "resources/list", { authInfo });
      await house.call(era, "resources/read", { params: { uri }, authInfo });
      const stream = await house.call(era, "resources/stream", { params: { uri }, authInfo });
      for (const redeemer of [asOwner, asGuest])
        await bodyOf(await house.redeem(tokenIn(stream), { authInfo: redeemer }));
      const caller = callerWith(authInfo);
      const notifications = { resourceSubscriptions: [uri] };
      const listening = await house.sluice.host.listen({
        id: 1,
        params: { notifications },
        caller,
      });
      if ("close" in listening) listening.close();
    }
  await house.sluice.revoke({ principal: { ...alice, claims: { patient: secret } } });
  await house.sluice.close();
  return [...heard, ...house.errors.map((error) => `error ${String(error)}`)];
}

test.each(["sealed", "stored"] as const)(
  "claims are in no audit record, no report and no record of the state store, with %s tokens",
  async (tokens) => {
    const written = await writtenBy({ grant: { tokens } });
    const count = (kind: string): number => written.filter((text) => text.startsWith(kind)).length;
    expect(count("audit ")).toBeGreaterThanOrEqual(16);
    expect(count("store claim ")).toBeGreaterThanOrEqual(2);
    expect(count("store put ")).toBe(tokens === "stored" ? 2 : 0);
    expect(count("store revoke ")).toBe(1);
    expect(written.filter((text) => text.includes(secret))).toEqual([]);
  },
);

test("negative control: a rule that puts the claims into its error is found out", async () => {
  const access = (principal?: Principal): never => {
    throw new Error(`no rule for ${JSON.stringify(principal)}`);
  };
  const written = await writtenBy({ access });
  expect(written.some((text) => text.startsWith("error ") && text.includes(secret))).toBe(true);
});
