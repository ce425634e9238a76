import { randomUUID } from "node:crypto";
import {
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  type McpHandlerRequestOptions,
} from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import { createMemoryStores, type StateStore, type Stores } from "@sluice/state";
import { createSluice, type Sluice } from "@sluice/server";
import { createRedisStores } from "@sluice/state-redis";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { createTickets } from "@sluice/transport-ws";
import { Redis } from "ioredis";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { QuestionStates } from "../../packages/uploads/src/ask/elicit-state.ts";
import { UploadPageStore } from "../../packages/uploads/src/page/upload-pages.ts";
import { startProgram } from "../bed/program.ts";
import { send } from "../bed/raw.ts";
import { hasRedis, startRedis, type RedisServer } from "../bed/redis.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const invented = isDeep ? 100_000 : 300;
if (!isDeep)
  console.log("invented DELETEs: 300; 100,000, and how others fare, is for SLUICE_DEEP=1");

const endpoint = "http://127.0.0.1:9/mcp";

/** A server whose URLs are stored; a bearer token is its owner's name, which middleware has verified. */
function createHouse(stores: Stores) {
  const keys = [generateKey()];
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": "0123456789" }),
    baseUri: "files://demo/",
    endpoint,
    keys,
    stores,
    principal: ({ authInfo }) =>
      authInfo && { issuer: "test", subject: authInfo.token, clientId: "test" },
    anonymous: true,
    grant: { tokens: "stored" },
    onWarning: () => {},
  });
  // as the SDK documents it for servers without sessions: every DELETE is fine with it
  const mcp = {
    async fetch(request: Request, told?: McpHandlerRequestOptions): Promise<Response> {
      const transport = new WebStandardStreamableHTTPServerTransport();
      await sluice.attach(new McpServer({ name: "flood", version: "1.0.0" })).connect(transport);
      return transport.handleRequest(request, told);
    },
  };
  const tickets = createTickets({ keys, state: stores.state, url: "ws://127.0.0.1:9/mcp" });
  return { sluice, handler: withSluice(mcp, sluice), tickets };
}

type House = ReturnType<typeof createHouse>;

const authInfoOf = (token: string) => ({ token, clientId: "test", scopes: [] });

const identify = async ({ host }: Sluice, name: string) =>
  host.identify({ authInfo: authInfoOf(name), header: () => undefined });

/** One of everything that is kept in the store, for a principal; rejects when one of them is not. */
async function issueAll({ sluice, tickets }: House, name: string): Promise<void> {
  const identity = await identify(sluice, name);
  const { owner } = identity;
  const grant = await sluice.host.mint(identity, "a.bin", undefined);
  const opened = await sluice.host.redeem({
    method: "HEAD",
    token: grant!.token,
    header: () => undefined,
    authInfo: authInfoOf(name),
  });
  expect(opened.status).toBe(200);
  const { ticket } = await tickets.issue(authInfoOf(name));
  expect((await tickets.take(ticket)).token).toBe(name);
  const terms = { mode: "binary", message: "Which?", requestedSchema: {}, uploadEndpoints: {} };
  const question = terms as never;
  const expiresAt = Date.now() + 60_000;
  const pageId = "p".repeat(20) + randomUUID().slice(0, 12).replaceAll("-", "x");
  const pages = new UploadPageStore(sluice.host);
  const url = await pages.pageUrl({ pageId, question, expiresAt, owner });
  const page = await pages.open(url.slice(url.lastIndexOf("/") + 1));
  if (page.phase !== "open") throw new Error(`the page is ${page.phase}`);
  await pages.answer(page, { answerId: randomUUID(), action: "decline" });
  const states = new QuestionStates(sluice.host);
  const context = { principal: identity.principal, message: "Which?", fields: {}, owner } as const;
  await states.open(states.seal({ expiresAt, slots: {} }, context), context);
}

async function endInvented({ handler }: House, count: number): Promise<Set<number>> {
  const statuses = new Set<number>();
  for (let n = 0; n < count; n++) {
    const headers = { "mcp-session-id": randomUUID() };
    statuses.add(
      (await handler.fetch(new Request(endpoint, { method: "DELETE", headers }))).status,
    );
  }
  return statuses;
}

describe("a flood of invented DELETEs", () => {
  test("takes no room: tokens, tickets, pages and states are issued afterwards", async () => {
    const house = createHouse(createMemoryStores({ records: { perProcess: invented / 2 } }));
    expect(await endInvented(house, invented)).toEqual(new Set([200]));
    await issueAll(house, "ann");
  });

  test("does not revive a session that was ended, nor does a flood of sessions of another principal", async () => {
    const { sluice, handler } = createHouse(createMemoryStores({ records: { perProcess: 100 } }));
    const session = async (name: string, sessionId: string) =>
      sluice.host.identify({ authInfo: authInfoOf(name), sessionId, header: () => undefined });
    const ann = await session("ann", "of-ann");
    const { token } = (await sluice.host.mint(ann, "a.bin", undefined))!;
    const status = async () => {
      const caller = { authInfo: authInfoOf("ann"), sessionId: "of-ann", header: () => undefined };
      return (await sluice.host.redeem({ method: "HEAD", token, ...caller })).status;
    };
    expect(await status()).toBe(200);
    await sluice.endSession("of-ann");
    expect(await status()).toBe(404);
    for (let n = 0; n < 200; n++) {
      await sluice.host.bindSession(await session("mallory", `of-mallory-${n}`));
      await sluice.endSession(`of-mallory-${n}`);
    }
    await endInvented({ sluice, handler } as House, 200);
    expect(await status()).toBe(404);
    // the oldest ends of her own are what mallory pushes out
    expect(await sluice.host.isSessionOver("of-mallory-0")).toBe(false);
    expect(await sluice.host.isSessionOver("of-mallory-199")).toBe(true);
  });

  test("negative control: a store that keeps every end has no room left for anything else", async () => {
    const stores = createMemoryStores({ records: { perProcess: 100, perPrincipal: 100 } });
    const store = stores.state;
    const twin: StateStore = {
      ...store,
      endSession: (session, now) =>
        store.put(`ended ${session}`, new Uint8Array(1), {
          now,
          expiresAt: now + 3_600_000,
          owner: "",
        }),
    };
    const house = createHouse({ ...stores, state: twin });
    const flood = endInvented(house, 200);
    await expect(flood).rejects.toMatchObject({ code: "unavailable" });
    await expect(issueAll(house, "ann")).rejects.toMatchObject({ code: "unavailable" });
  });
});

describe("a principal with its full share of the store", () => {
  test("is throttled for every kind of record, and other principals are not", async () => {
    const house = createHouse(createMemoryStores({ records: { perProcess: 100 } }));
    const mallory = await identify(house.sluice, "mallory");
    const fill = async () => {
      for (;;) await house.sluice.host.mint(mallory, "a.bin", undefined);
    };
    await expect(fill()).rejects.toMatchObject({ code: "throttled" });
    await expect(issueAll(house, "mallory")).rejects.toMatchObject({ code: "throttled" });
    await issueAll(house, "ann");
  });

  test("shares one with every bearer token that nothing has verified", async () => {
    const sluice = createSluice({
      storage: createMemoryBackend({ "a.bin": "0123456789" }),
      baseUri: "files://demo/",
      endpoint,
      keys: "ephemeral",
      stores: createMemoryStores({ records: { perProcess: 100 } }),
      grant: { tokens: "stored" },
      onWarning: () => {},
    });
    const mint = async (authorization: string, authInfo?: { token: string }) => {
      const verified = authInfo && authInfoOf(authInfo.token);
      const header = (name: string) => (name === "authorization" ? authorization : undefined);
      const identity = await sluice.host.identify({ authInfo: verified, header });
      return sluice.host.mint(identity, "a.bin", undefined);
    };
    for (let n = 0; n < 10; n++) await mint(`Bearer invented-${n}`);
    await expect(mint("Bearer another")).rejects.toMatchObject({ code: "throttled" });
    expect(await mint("Bearer verified", { token: "verified" })).toBeDefined();
  });
});

describe.runIf(hasRedis)("the same in Redis", () => {
  let server: RedisServer;
  let redis: Redis;

  beforeAll(async () => {
    server = await startRedis();
    redis = new Redis({ path: server.path });
  });
  afterAll(async () => {
    redis?.disconnect();
    await server?.[Symbol.asyncDispose]();
  });

  test(
    "invented DELETEs leave no key, and a full share is its owner's alone",
    { tags: "slow" },
    async () => {
      const prefix = "{flood}:";
      const state = createRedisStores({
        redis,
        prefix,
        durable: true,
        records: { perPrincipal: 10 },
      });
      const house = createHouse(state);
      await endInvented(house, Math.min(invented, 10_000));
      expect(await redis.keys(`${prefix}*`)).toEqual([]);
      const mallory = await identify(house.sluice, "mallory");
      const mints = Array.from({ length: 20 }, () =>
        house.sluice.host.mint(mallory, "a.bin", undefined),
      );
      const settled = await Promise.allSettled(mints);
      expect(settled.filter(({ status }) => status === "fulfilled")).toHaveLength(10);
      await issueAll(house, "ann");
    },
  );
});

test.runIf(isDeep)(
  "others are served while 100,000 invented DELETEs come",
  async () => {
    await using program = await startProgram<{ url: string; downloadUrl: string }>("serve-flooded");
    const { url, downloadUrl } = program.hello;
    const served = async (): Promise<number> => {
      const begun = performance.now();
      const { status } = await send("GET", downloadUrl, { headers: {} });
      expect(status).toBe(200);
      return performance.now() - begun;
    };
    const measure = async (isOver: () => boolean): Promise<string> => {
      const times: number[] = [];
      while (!isOver()) {
        times.push(await served());
        await new Promise((resolve) => void setTimeout(resolve, 5));
      }
      times.sort((a, b) => a - b);
      const at = (part: number) => times[Math.floor(times.length * part)]!.toFixed(2);
      return `${times.length} requests, median ${at(0.5)} ms, p90 ${at(0.9)} ms, p99 ${at(0.99)} ms`;
    };
    const until = (ms: number) => () => performance.now() > ms;
    await measure(until(performance.now() + 2_000));
    console.log("before:", await measure(until(performance.now() + 10_000)));
    let sent = 0;
    const flood = (async () => {
      for (; sent < invented; sent++)
        await send("DELETE", url, { headers: { "mcp-session-id": randomUUID() } });
    })();
    const begun = performance.now();
    console.log("during:", await measure(() => sent >= invented));
    await flood;
    console.log(`flood: ${sent} in ${((performance.now() - begun) / 1_000).toFixed(1)} s`);
    console.log("after:", await measure(until(performance.now() + 10_000)));
  },
  600_000,
);
