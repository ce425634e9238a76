import { generateKey } from "@sluice/core";
import { createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import type { AccessDecision, SluiceOptions } from "@sluice/server";
import { streamResource } from "@sluice/client";
import { readFile, rename, rm, writeFile } from "node:fs/promises";
import { join } from "node:path";
import { afterEach, describe, expect, test, vi } from "vitest";
import { z } from "zod";
import { connect } from "../bed/clients.ts";
import { bytesOf } from "../bed/content.ts";
import { createMeddler, type Meddler } from "../bed/meddler.ts";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { startSite, type Site, type SiteOptions } from "../bed/site.ts";

const content = bytesOf(50_000, "secret plans");
const uri = "files://site/plans.bin";
const files = { "plans.bin": content };
const accounts = {
  "alice-token": { subject: "alice", scopes: ["files:read"] },
  "alice-refreshed": { subject: "alice", scopes: ["files:read"] },
  "bob-token": { subject: "bob", scopes: ["files:read"] },
  "weak-token": { subject: "alice", scopes: [] },
};
const timeouts = { pauseScale: 0 };

afterEach(() => {
  vi.useRealTimers();
});

const start = (sluice: Partial<SluiceOptions> = {}, more: SiteOptions = {}) =>
  startSite({ files, accounts, sluice: { delivery: "downloadUrl", ...sluice }, ...more });

async function mint(site: Site, token?: string): Promise<string> {
  const { message } = await call(
    site.url,
    "resources/stream",
    { uri },
    {
      streaming: {},
      ...(token !== undefined && { token }),
    },
  );
  return String(message?.result?.["downloadUrl"]);
}

const get = (url: string, token?: string): Promise<RawAnswer> =>
  send("GET", url, token === undefined ? {} : { headers: { authorization: `Bearer ${token}` } });

/** A 404 as everybody gets it. */
async function expectUnknown(site: Site, answer: RawAnswer): Promise<void> {
  const invented = await get(`${site.url}/streams/v1.k1.${"A".repeat(246)}`, "alice-token");
  expect(answer.status).toBe(404);
  expect(answer.bytes.equals(invented.bytes)).toBe(true);
  const { date: _a, ...headers } = answer.headers;
  const { date: _b, ...expected } = invented.headers;
  expect(headers).toEqual(expected);
}

test("a token refreshed by the same user goes on working, another user's never does", async () => {
  await using site = await start();
  const url = await mint(site, "alice-token");
  expect((await get(url, "alice-refreshed")).status).toBe(200);
  await expectUnknown(site, await get(url, "bob-token"));
});

test("an altered token is unknown, whichever character was altered [SEP-2532/security/must-unguessable-urls]", async () => {
  await using site = await start();
  const url = await mint(site, "alice-token");
  const begin = url.lastIndexOf("/") + 1;
  for (let at = begin; at < url.length; at += 7) {
    const altered = `${url.slice(0, at)}${url[at] === "A" ? "B" : "A"}${url.slice(at + 1)}`;
    await expectUnknown(site, await get(altered, "alice-token"));
  }
  for (const variant of [`${url}=`, `${url}A`, url.slice(0, -1), `${url}%20`])
    await expectUnknown(site, await get(variant, "alice-token"));
  expect((await get(url, "alice-token")).status).toBe(200);
});

test("a token of another server is unknown, under the same key too", async () => {
  const keys = [generateKey()];
  await using one = await start({ keys });
  await using two = await start({ keys });
  const url = (await mint(one, "alice-token")).replace(one.origin, two.origin);
  await expectUnknown(two, await get(url, "alice-token"));
});

test("an expired token is gone, and says so to its holder [SEP-2532/3.errors/statuses]", async () => {
  await using site = await start({ grant: { ttlMs: 60_000 } });
  const url = await mint(site, "alice-token");
  vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + 70_000 });
  const { status, headers, bytes } = await get(url, "alice-token");
  expect(status).toBe(410);
  expect(headers["content-type"]).toBe("application/problem+json");
  expect(JSON.parse(bytes.toString())).toMatchObject({ reason: "expired" });
});

test("access that is revoked between mint and redemption is revoked", async () => {
  let decision: AccessDecision = "allow";
  await using site = await start({ access: () => decision });
  const url = await mint(site, "alice-token");
  for (const revoked of ["hide", "deny"] as const) {
    decision = revoked;
    await expectUnknown(site, await get(url, "alice-token"));
  }
  decision = "allow";
  expect((await get(url, "alice-token")).status).toBe(200);
});

test("an object that was deleted is unknown, one that was replaced is gone", async () => {
  await using site = await start();
  const url = await mint(site, "alice-token");
  await writeFile(join(site.root, "new"), "other bytes");
  await rename(join(site.root, "new"), join(site.root, "plans.bin"));
  const changed = await get(url, "alice-token");
  expect(changed.status).toBe(410);
  expect(JSON.parse(changed.bytes.toString())).toMatchObject({ reason: "changed" });
  await rm(join(site.root, "plans.bin"));
  await expectUnknown(site, await get(url, "alice-token"));
});

test("a principal's grants can be revoked at once", async () => {
  const state = createMemoryStateStore();
  const grants: string[] = [];
  await using site = await start({
    stores: { ...createMemoryStores(), state },
    audit: ({ grant }) => void (grant !== undefined && grants.push(grant)),
  });
  const url = await mint(site, "alice-token");
  await state.revoke({ id: grants[0]! }, { now: Date.now(), ttlMs: 3_600_000 });
  await expectUnknown(site, await get(url, "alice-token"));
});

describe("a single-use grant [SEP-2532/security/should-single-use]", () => {
  test("gives its bytes once, and HEAD or a failed check uses nothing up", async () => {
    await using site = await start({ grant: { use: "once" } });
    const url = await mint(site, "alice-token");
    const authorization = { headers: { authorization: "Bearer alice-token" } };
    expect((await send("HEAD", url, authorization)).status).toBe(200);
    await expectUnknown(site, await get(url, "bob-token"));
    expect((await get(url)).status).toBe(401);
    expect((await get(url, "alice-token")).bytes.equals(content)).toBe(true);
    await expectUnknown(site, await get(url, "alice-token"));
  });

  test("gives them to one of fifty that come at the same time", async () => {
    await using site = await start({
      grant: { use: "once" },
      limits: { streams: { perPrincipal: 100 } },
    });
    const url = await mint(site, "alice-token");
    const answers = await Promise.all(Array.from({ length: 50 }, () => get(url, "alice-token")));
    expect(answers.filter(({ status }) => status === 200)).toHaveLength(1);
    expect(answers.filter(({ status }) => status === 404)).toHaveLength(49);
  });
});

describe("a stored URL [SEP-2532/security/must-unguessable-urls]", () => {
  const stored = { grant: { tokens: "stored" } } as const;

  test("is random and nothing else, and a client saves from it [SEP-2532/privacy/must-not-leak-in-url]", async () => {
    await using site = await start(stored);
    const urls = await Promise.all(Array.from({ length: 5 }, () => mint(site, "alice-token")));
    for (const url of urls) expect(url).toMatch(/\/streams\/[A-Za-z0-9_-]{32}$/);
    expect(new Set(urls).size).toBe(5);
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    const stream = await streamResource(client, uri, { timeouts });
    const { path } = await stream.saveTo(join(site.target, "plans.bin"));
    expect((await readFile(path)).equals(content)).toBe(true);
    await client.close();
  });

  test("is unknown if it is another principal's, altered, withdrawn or made up, as a sealed one is", async () => {
    await using site = await start(stored);
    const url = await mint(site, "alice-token");
    expect((await get(url)).status).toBe(401);
    await expectUnknown(site, await get(url, "bob-token"));
    for (const tail of ["=", "A", "%20", ".", "/"])
      await expectUnknown(site, await get(url + tail, "alice-token"));
    await expectUnknown(site, await get(url.replace(/.{3}$/, "AAA"), "alice-token"));
    await expectUnknown(site, await get(`${site.url}/streams/${"A".repeat(32)}`, "alice-token"));
    expect((await get(url, "alice-token")).bytes.equals(content)).toBe(true);
    await site.sluice.revoke({ token: url.slice(url.lastIndexOf("/") + 1) });
    await expectUnknown(site, await get(url, "alice-token"));
  });

  test("goes on after a direct answer that broke off", async () => {
    let meddler: Meddler | undefined;
    await using site = await start(
      { ...stored, delivery: "direct" },
      { front: async (to) => (meddler = await createMeddler(to)) },
    );
    const seen: string[] = [];
    meddler!.meddle = ({ request, body, answer, response }) => {
      if (request.url!.includes("/streams/")) seen.push(request.url!);
      if (!body.includes("resources/stream") || answer.headers.link === undefined) return false;
      answer.resume();
      response.writeHead(200, answer.headers);
      response.write(content.subarray(0, 10_000), () => response.socket?.end());
      return true;
    };
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    const stream = await streamResource(client, uri, { timeouts });
    const { path } = await stream.saveTo(join(site.target, "plans.bin"));
    expect((await readFile(path)).equals(content)).toBe(true);
    expect(seen).toEqual([expect.stringMatching(/\/streams\/[A-Za-z0-9_-]{32}$/)]);
    await client.close();
  });
});

test("a self-authenticating grant serves one download and no second one [SEP-2532/security/should-single-use]", async () => {
  await using site = await startSite({ files, sluice: { delivery: "downloadUrl" } });
  const url = await mint(site);
  const part = await send("GET", url, { headers: { range: "bytes=0-999" } });
  expect(part.status).toBe(206);
  const rest = await send("GET", url, { headers: { range: "bytes=1000-" } });
  expect(Buffer.concat([part.bytes, rest.bytes]).equals(content)).toBe(true);
  await expect.poll(async () => (await get(url)).status).toBe(404);
});

describe("scopes that reading needs guard streaming too", () => {
  test.each(["legacy", "modern"] as const)("hold in the %s era", async (era) => {
    await using site = await start({
      delivery: "direct",
      scopeChallenge: ({ authInfo }) =>
        authInfo?.scopes.includes("files:read") ? undefined : { scopes: ["files:read"] },
    });
    const ask = (token: string) =>
      call(site.url, "resources/stream", { uri }, { era, streaming: {}, token });
    const refused = await ask("weak-token");
    expect(refused.status).toBe(403);
    expect(refused.headers["www-authenticate"]).toMatch(/insufficient_scope.*files:read/);
    expect(refused.headers).not.toHaveProperty("mcp-resource-uri");
    const granted = await ask("alice-token");
    expect(granted.bytes.equals(content)).toBe(true);
  });
});

test("a legacy session's grants work for its user, with or without its id, in no other session, and end with it [SEP-2532/3.download-url/must-scope-to-session] [SEP-2532/privacy/must-scope-and-limit-url]", async () => {
  await using site = await start({}, { sessions: true });
  const seen: string[] = [];
  const client = await connect("SDK v2, legacy", site.url, {
    token: "alice-token",
    fetch: async (input, init) => {
      const response = await fetch(input, init);
      seen.push(response.headers.get("mcp-session-id") ?? "");
      return response;
    },
  });
  const sessionId = seen.find((id) => id !== "")!;
  const result = await client.request(
    { method: "resources/stream", params: { uri } },
    z.looseObject({ downloadUrl: z.string() }),
  );
  const authorization = "Bearer alice-token";
  const within = { headers: { authorization, "mcp-session-id": sessionId } };
  expect((await send("GET", result.downloadUrl, within)).status).toBe(200);
  expect((await get(result.downloadUrl, "alice-token")).status).toBe(200);
  await expectUnknown(site, await get(result.downloadUrl, "bob-token"));
  expect((await get(result.downloadUrl)).status).toBe(401);
  const elsewhere = { headers: { authorization, "mcp-session-id": crypto.randomUUID() } };
  await expectUnknown(site, await send("GET", result.downloadUrl, elsewhere));
  const ended = await send("DELETE", site.url, within);
  expect(ended.status).toBe(200);
  await expectUnknown(site, await send("GET", result.downloadUrl, within));
  await expectUnknown(site, await get(result.downloadUrl, "alice-token"));
  await client.close();
});

describe("a client whose URL no longer works", () => {
  test.each([410, 404, 401, 503])(
    "goes on after %i [SEP-2532/3.errors/may-reissue-on-410] [SEP-2532/3.errors/should-retry-download]",
    async (status) => {
      let meddler: Meddler | undefined;
      await using site = await start(
        {},
        { front: async (to) => (meddler = await createMeddler(to)) },
      );
      let refusals = 0;
      let calls = 0;
      meddler!.meddle = ({ request, body, answer, response }) => {
        if (body.includes("resources/stream")) calls++;
        if (request.method !== "GET" || !request.url!.includes("/streams/") || refusals++ > 0)
          return false;
        answer.resume();
        response.writeHead(status).end();
        return true;
      };
      const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
      const stream = await streamResource(client, uri, { timeouts });
      const { path } = await stream.saveTo(join(site.target, "plans.bin"));
      expect((await readFile(path)).equals(content)).toBe(true);
      expect(calls).toBe(status === 503 ? 1 : 2);
      await client.close();
    },
  );

  test("gives up with a named error when none ever does", async () => {
    let meddler: Meddler | undefined;
    await using site = await start(
      {},
      { front: async (to) => (meddler = await createMeddler(to)) },
    );
    meddler!.meddle = ({ request, answer, response }) => {
      if (request.method !== "GET" || !request.url!.includes("/streams/")) return false;
      answer.resume();
      response.writeHead(410).end();
      return true;
    };
    const client = await connect("SDK v2, modern", site.url, { token: "alice-token" });
    await expect(
      streamResource(client, uri, { timeouts }).then((stream) =>
        stream.saveTo(join(site.target, "plans.bin")),
      ),
    ).rejects.toMatchObject({ name: "SluiceError", code: "expired" });
    await client.close();
  });
});
