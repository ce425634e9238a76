/**
 * URLs that providers give in place of bytes: which clients are sent there, what that uses up, and what is recorded.
 * @module
 */
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import type { AuditRecord, ProviderOptions } from "@sluice/server";
import { RateLimiterMemory } from "rate-limiter-flexible";
import { describe, expect, test } from "vitest";
import { z } from "zod";
import { alice, as, createHouse, type House } from "./redeeming.ts";
import { eras, talkTo } from "./talking.ts";

const origin = "https://cdn.example.com";
const uri = "cdn://acme/film.bin";
const later = (): number => Date.now() + 60_000;
const given: ProviderOptions = {
  open: () => ({ url: `${origin}/film?sig=1`, expiresAt: later() }),
  mimeType: "video/mp4",
};

/** Keeps records and can be broken, as the sink of an audit trail that is required. */
function createSink() {
  const records: AuditRecord[] = [];
  const state = { isBroken: false };
  return {
    records,
    state,
    audit: {
      required: true,
      async sink(record: AuditRecord) {
        await Promise.resolve();
        if (state.isBroken) throw new Error("disk full");
        records.push(record);
      },
    },
  };
}

function provideFilm(house: House, provider: ProviderOptions = given): void {
  house.sluice.provide(uri, { redirectOrigins: [origin], ...provider });
}

function tokenFor(house: House, use: "once" | "window" = "once", etag?: string): string {
  const key = house.sluice.host.nameOf(uri);
  const terms = { key, principal: alice, use, ...(etag !== undefined && { etag }) };
  return house.seal("download", terms).token;
}

const headers = as(alice);

test("a download URL leads to the URL of its provider, with one record that says so", async () => {
  const house = createHouse();
  provideFilm(house);
  expect(await house.redeem(tokenFor(house), { headers })).toMatchObject({ status: 302 });
  expect(house.records).toMatchObject([
    { action: "download", mode: "redirect", outcome: "issued", uri, bytes: 0 },
  ]);
});

test("a provider cannot redirect to the origins of the storage", async () => {
  const house = createHouse({ redirectOrigins: "storage" });
  house.sluice.provide(uri, { open: given.open });
  expect(await house.redeem(tokenFor(house), { headers })).toMatchObject({ status: 500 });
  const provider = { open: given.open, redirectOrigins: "storage" as never };
  expect(() => createHouse().sluice.provide(uri, provider)).toThrow(
    /^sluice.provide: redirectOrigins is "storage".*name the origins/,
  );
});

test("a single-use grant leads there once; the second record is a refusal", async () => {
  const house = createHouse();
  provideFilm(house);
  const token = tokenFor(house);
  await house.redeem(token, { headers });
  expect(await house.redeem(token, { headers })).toMatchObject({ status: 404 });
  expect(house.records.map(({ outcome }) => outcome)).toEqual(["issued", "denied"]);
});

test("a grant is not used up where its record cannot be written", async () => {
  const { records, state, audit } = createSink();
  const house = createHouse({ audit });
  provideFilm(house);
  const token = tokenFor(house);
  state.isBroken = true;
  expect(await house.redeem(token, { headers })).toMatchObject({ status: 503 });
  state.isBroken = false;
  expect(await house.redeem(token, { headers })).toMatchObject({ status: 302 });
  expect(records.map(({ outcome }) => outcome)).toEqual(["begun", "issued"]);
});

test("a grant for one version leads to no other one", async () => {
  let version = "1";
  const house = createHouse();
  const film = { ...given, rewind: true as const, describe: () => ({ size: 10, version }) };
  provideFilm(house, film);
  const { storage, key } = await house.sluice.host.authorize({
    name: house.sluice.host.nameOf(uri),
    principal: alice,
    action: "stream",
  });
  const { etag } = await storage.describe(key);
  const token = tokenFor(house, "window", etag);
  expect(await house.redeem(token, { headers })).toMatchObject({ status: 302 });
  version = "2";
  expect(await house.redeem(token, { headers })).toMatchObject({ status: 410 });
});

test("no client is sent to a URL that has expired, and no message has it", async () => {
  const house = createHouse();
  const expiresAt = Date.now() - 1_000;
  provideFilm(house, { open: () => ({ url: `${origin}/film?sig=secret`, expiresAt }) });
  const reply = await house.redeem(tokenFor(house), { headers });
  expect(reply.status).toBe(500);
  expect(String(house.errors[0])).toContain("expired");
  expect(JSON.stringify([reply, String(house.errors[0])])).not.toContain("secret");
});

test("the origin of a URL that clients may not be sent to is named to the operator", async () => {
  const house = createHouse();
  const url = "https://elsewhere.example/film";
  provideFilm(house, { open: () => ({ url, expiresAt: later() }) });
  expect((await house.redeem(tokenFor(house), { headers })).status).toBe(500);
  expect(String(house.errors[0])).toContain("https://elsewhere.example; name that origin");
});

describe.each(eras)("in the %s era", (era) => {
  test("bytes behind a URL count as fetched, where their number is told", async () => {
    const perPrincipal = new RateLimiterMemory({ points: 1_000, duration: 60 });
    const house = createHouse({ rates: { bytes: { perPrincipal } } });
    provideFilm(house, { ...given, describe: () => ({ size: 5_000 }) });
    const talk = talkTo(house.sluice);
    const stream = () => talk(era, "resources/stream", { params: { uri }, headers });
    expect((await stream()).slot).toMatchObject({ reply: { status: 302 } });
    expect((await stream()).message.error!.data.reason).toBe("busy");
    expect(await house.redeem(tokenFor(house), { headers })).toMatchObject({ status: 429 });
  });
});

test("bytes behind a URL count as fetched when a download URL leads there", async () => {
  const perPrincipal = new RateLimiterMemory({ points: 1_000, duration: 60 });
  const house = createHouse({ rates: { bytes: { perPrincipal } } });
  provideFilm(house, { ...given, describe: () => ({ size: 5_000 }) });
  expect(await house.redeem(tokenFor(house), { headers })).toMatchObject({ status: 302 });
  expect(await house.redeem(tokenFor(house), { headers })).toMatchObject({ status: 429 });
});

test("a link to a resource behind a URL comes without a preview", async () => {
  const house = createHouse({ principal: () => alice });
  provideFilm(house);
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerTool("link", { inputSchema: z.object({}) }, async (_args, ctx) => ({
      content: await house.sluice.resourceLink(uri, { mcp, ctx }),
    }));
    return house.sluice.attach(mcp);
  });
  const body = { jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "link" } };
  const request = new Request("http://127.0.0.1/mcp", {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
    },
    body: "{}",
  });
  const text = await (await handler.fetch(request, { parsedBody: body })).text();
  const { result } = JSON.parse(/^data: ?(\{.*\})$/m.exec(text)![1]!);
  expect(result.content).toMatchObject([{ type: "resource_link", uri, mimeType: "video/mp4" }]);
});

test("delivery and origins that cannot work are refused when a provider is added", () => {
  const { sluice } = createHouse();
  const open = given.open;
  expect(() => sluice.provide("x://y/a", { open, delivery: "elsewhere" as never })).toThrow(
    TypeError,
  );
  expect(() => sluice.provide("x://y/b", { open, redirectOrigins: [`${origin}/`] })).toThrow(
    TypeError,
  );
});
