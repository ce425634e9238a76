// A link lives as long as its minter may have the resource, and not a request longer.
import { rm } from "node:fs/promises";
import { join } from "node:path";
import { createKeyRing, generateKey, type KeyRing } from "@sluice/core";
import type { AccessDecision, AuditRecord, SluiceOptions } from "@sluice/server";
import { Client } from "@modelcontextprotocol/sdk/client/index.js";
import { StreamableHTTPClientTransport } from "@modelcontextprotocol/sdk/client/streamableHttp.js";
import { afterEach, describe, expect, test, vi } from "vitest";
import { askForLink, linkTo, startLinkSite, type LinkAnswer } from "../bed/links.ts";
import { call, send, type RawAnswer } from "../bed/raw.ts";
import { baseUri, type Site } from "../bed/site.ts";

const content = Buffer.from("secret plans ".repeat(4_000));
const uri = `${baseUri}plans.bin`;
const token = "alice-token";
const soonMs = 120_000;
const alice = { issuer: "https://issuer.example", subject: "alice", clientId: "test" };

afterEach(() => {
  vi.useRealTimers();
});

/** A site and what a test does to it. */
interface House {
  readonly site: Site;
  readonly keys: KeyRing;
  readonly records: AuditRecord[];
  decision: AccessDecision;
}

async function start(links: SluiceOptions["links"]): Promise<House> {
  const keys = createKeyRing([generateKey({ kid: "k1" })]);
  const records: AuditRecord[] = [];
  const house = { keys, records, decision: "allow" as AccessDecision };
  const site = await startLinkSite({
    files: { "plans.bin": content },
    accounts: {
      [token]: { subject: "alice" },
      "short-token": {
        subject: "alice",
        expiresAt: Math.floor((Date.now() + soonMs) / 1_000),
      },
      "bob-token": { subject: "bob" },
    },
    sluice: {
      keys,
      links: links ?? {},
      access: (principal) => (principal?.subject === "alice" ? house.decision : "allow"),
      audit: (record) => void records.push(record),
    },
  });
  return Object.assign(house, { site });
}

const tokenOf = ({ download_url: url }: LinkAnswer): string => url.slice(url.lastIndexOf("/") + 1);
const grantOf = ({ records }: House): string =>
  records.findLast(({ action }) => action === "link")!.grant!;
const pass = (ms: number): void =>
  void vi.useFakeTimers({ toFake: ["Date"], now: Date.now() + ms });

/** What ends a link of alice, and whether it leaves the one of bob alone. */
const deaths: Readonly<
  Record<
    string,
    {
      readonly token?: string;
      readonly all?: true;
      readonly kill: (house: House, link: LinkAnswer) => unknown;
    }
  >
> = {
  "its principal is revoked": { kill: ({ site }) => site.sluice.revoke({ principal: alice }) },
  "it is revoked by its token": {
    kill: ({ site }, link) => site.sluice.revoke({ token: tokenOf(link) }),
  },
  "it is revoked by its id in the audit trail": {
    kill: (house) => house.site.sluice.revoke({ grant: grantOf(house) }),
  },
  "its resource is revoked": {
    all: true,
    kill: ({ site }) => site.sluice.revoke({ resource: uri }),
  },
  "the rule denies its minter": { kill: (house) => (house.decision = "deny") },
  "the rule hides it from its minter": { kill: (house) => (house.decision = "hide") },
  "the access token of its minter ends": {
    token: "short-token",
    kill: () => pass(soonMs + 10_000),
  },
  "its time is over": { all: true, kill: () => pass(15 * 60_000 + 10_000) },
  "its key is dropped from the ring": {
    all: true,
    kill: ({ keys }) => keys.replace([generateKey({ kid: "k2" })]),
  },
  "its file is gone": { all: true, kill: ({ site }) => rm(join(site.root, "plans.bin")) },
};

/** A 404 as it is given for what was never a link. */
async function expectUnknown(site: Site, link: LinkAnswer): Promise<void> {
  for (const range of [{}, { range: "bytes=5-9" }])
    for (const method of ["GET", "HEAD"] as const) {
      const dead = await send(method, link.download_url, { headers: range });
      const invented = await send(method, `${site.url}/d/${"A".repeat(32)}`, { headers: range });
      expect(asSeen(dead)).toEqual(asSeen(invented));
      expect(dead.status).toBe(404);
    }
}

function asSeen({ status, headers: { date: _date, ...headers }, bytes }: RawAnswer): object {
  return { status, headers, body: bytes.toString() };
}

async function expectAlive({ download_url: url }: LinkAnswer): Promise<void> {
  const { status, bytes } = await send("GET", url);
  expect([status, bytes.equals(content)]).toEqual([200, true]);
}

describe.each(["stored", "sealed"] as const)("a %s link", (tokens) => {
  test.each(Object.entries(deaths))(
    "dies when %s",
    async (_, { token: own = token, all, kill }) => {
      const house = await start({ tokens });
      await using site = house.site;
      const bobs = await linkTo(site, "plans.bin", { token: "bob-token" });
      const link = await linkTo(site, "plans.bin", { token: own });
      await expectAlive(link);
      await kill(house, link);
      await expectUnknown(site, link);
      if (all) await expectUnknown(site, bobs);
      else await expectAlive(bobs);
    },
  );

  test("dies with the session that it was made in", async () => {
    await using site = await startLinkSite({
      files: { "plans.bin": content },
      sessions: true,
      sluice: { links: { tokens } },
    });
    const open = async () => {
      const client = new Client({ name: "host", version: "1.0.0" });
      const transport = new StreamableHTTPClientTransport(new URL(site.url));
      await client.connect(transport);
      const answer = await client.callTool({ name: "get_download_link", arguments: { uri } });
      return { client, transport, link: answer.structuredContent as LinkAnswer };
    };
    const [mine, other] = [await open(), await open()];
    await expectAlive(mine.link);
    await mine.transport.terminateSession();
    await expectUnknown(site, mine.link);
    await expectAlive(other.link);
    await Promise.all([mine.client.close(), other.client.close()]);
  });

  test("works once where it is for once, for one of thirty that come at the same time", async () => {
    const { site } = await start({ tokens, use: "once" });
    await using _ = site;
    const link = await linkTo(site, "plans.bin", { token });
    expect(link.text).toContain("once");
    expect((await send("HEAD", link.download_url)).status).toBe(200);
    const answers = await Promise.all(
      Array.from({ length: 30 }, () => send("GET", link.download_url)),
    );
    expect(
      answers.filter(({ status }) => status === 200).map(({ bytes }) => bytes.equals(content)),
    ).toEqual([true]);
    await expectUnknown(site, link);
  });
});

test("a link says when it ends: within 15 minutes, and no later than the access token", async () => {
  const { site } = await start({});
  await using _ = site;
  const ends = async (own: string) =>
    Date.parse((await linkTo(site, "plans.bin", { token: own })).expires_at) - Date.now();
  expect(await ends(token)).toBeLessThanOrEqual(15 * 60_000);
  expect(await ends("short-token")).toBeLessThanOrEqual(soonMs);
});

test("a hidden resource cannot be linked, and looks missing", async () => {
  const house = await start({});
  await using site = house.site;
  house.decision = "hide";
  const seen = async (key: string) => {
    const answer = await askForLink(site, key, { token });
    const { date: _date, "content-length": _length, ...headers } = answer.headers;
    return { status: answer.status, headers, body: answer.bytes.toString().replaceAll(key, "…") };
  };
  const missing = await seen("absent.bin");
  expect(await seen("plans.bin")).toEqual(missing);
  expect(missing.body).toContain('"isError":true');
  expect(missing.body).not.toContain("/mcp/d/");
  await linkTo(site, "plans.bin", { token: "bob-token" });
});

test("a resource that the rule denies cannot be linked", async () => {
  const house = await start({});
  await using site = house.site;
  house.decision = "deny";
  await expect(linkTo(site, "plans.bin", { token })).rejects.toThrow('"isError":true');
});

test("a caller that is not signed in gets no link where there are accounts", async () => {
  const { site } = await start({});
  await using _ = site;
  const { message, bytes } = await call(
    site.url,
    "tools/call",
    {
      name: "get_download_link",
      arguments: { uri },
    },
    { headers: { "mcp-name": "get_download_link" } },
  );
  expect(bytes.toString()).not.toContain("/mcp/d/");
  expect(message?.result?.["isError"] === true || message?.error !== undefined).toBe(true);
});
