import { readdirSync, readFileSync, statSync } from "node:fs";
import { join } from "node:path";
import { createHttpUpstream } from "@sluice/bridge";
import { expect, test } from "vitest";
import { bridged, createHost, rawHost } from "./bridged.ts";
import { listening } from "./filing.ts";
import { agree, connect, folderOf, startGuarded } from "./guarded.ts";

test(
  "a user signs in once; tokens are kept for their owner only and refreshed",
  { tags: "slow" },
  async () => {
    const { url, seen, valid } = await startGuarded();
    const folder = folderOf();
    const first = await connect(url, { folder, openBrowser: agree });
    expect((await first.listTools()).tools).toEqual([]);
    expect(seen).toMatchObject({ registrations: 1, sheets: ["read"], exchanges: 1, refreshes: 0 });
    const [file] = readdirSync(folder);
    expect(statSync(join(folder, file!)).mode & 0o777).toBe(0o600);
    expect(statSync(folder).mode & 0o777).toBe(0o700);
    expect(readFileSync(join(folder, file!), "utf8")).toContain("access-");

    // another run needs no browser
    const fail = (): never => {
      throw new Error("no browser");
    };
    const second = await connect(url, { folder, openBrowser: fail });
    expect((await second.listTools()).tools).toEqual([]);
    // nor does a token that is over
    valid.clear();
    expect((await second.listTools()).tools).toEqual([]);
    expect(seen).toMatchObject({ registrations: 1, sheets: ["read"], refreshes: 1 });
    // the first one finds the new token
    expect((await first.listTools()).tools).toEqual([]);
    expect(seen).toMatchObject({ registrations: 1, sheets: ["read"], refreshes: 1 });
  },
);

test("bridges that start together ask the user once", async () => {
  const { url, seen } = await startGuarded();
  const folder = folderOf();
  const bridges = await Promise.all(
    Array.from({ length: 4 }, () => connect(url, { folder, openBrowser: agree })),
  );
  await Promise.all(bridges.map((client) => client.listTools()));
  expect(seen).toMatchObject({ registrations: 1, sheets: ["read"], exchanges: 1 });
});

test("an answer with another state is not taken", async () => {
  const { url, seen } = await startGuarded();
  const statuses: number[] = [];
  const client = await connect(url, {
    folder: folderOf(),
    openBrowser: async (page) => {
      const forged = new URL(page.searchParams.get("redirect_uri")!);
      forged.search = "?code=forged&state=forged";
      statuses.push((await fetch(forged)).status);
      await agree(page);
    },
  });
  expect((await client.listTools()).tools).toEqual([]);
  expect(statuses).toEqual([400]);
  expect(seen.exchanges).toBe(1);
});

test("a user who does not sign in is an error that says so", async () => {
  const { url } = await startGuarded();
  const signIn = { folder: folderOf(), openBrowser: () => {}, userMs: 100 };
  const host = await rawHost(
    bridged({ upstream: createHttpUpstream({ endpoint: url, signIn }) }).transport,
  );
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect
    .poll(() => host.got)
    .toMatchObject([{ id: 1, error: { message: expect.stringContaining("did not sign in") } }]);
});

test("a sign-in address that is not a web page is not opened", async () => {
  const { url } = await startGuarded({ authorizePage: "calculator:start" });
  let opened = 0;
  const signIn = { folder: folderOf(), openBrowser: () => void opened++, userMs: 100 };
  const host = await rawHost(
    bridged({ upstream: createHttpUpstream({ endpoint: url, signIn }) }).transport,
  );
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect.poll(() => host.got).toMatchObject([{ id: 1, error: { code: -32_000 } }]);
  expect(opened).toBe(0);
});

test("with a token of its own, the bridge asks no user", async () => {
  const { url, seen, valid } = await startGuarded();
  valid.set("mine", "");
  const client = createHost("modern");
  const upstream = createHttpUpstream({
    endpoint: url,
    token: "mine",
    signIn: { folder: folderOf(), openBrowser: agree },
  });
  await client.connect(bridged({ upstream }).transport);
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen.sheets).toEqual([]);
});

test(
  "two bridges refresh at the same time with one refresh token, and both stay signed in",
  { tags: "slow" },
  async () => {
    const { url, seen, valid } = await startGuarded();
    const folder = folderOf();
    const first = await connect(url, { folder, openBrowser: agree });
    const second = await connect(url, { folder, openBrowser: agree });
    for (let round = 1; round <= 3; round++) {
      valid.clear();
      const calls = [first, second, first, second].map((client) => client.listTools());
      expect((await Promise.all(calls)).map(({ tools }) => tools)).toEqual([[], [], [], []]);
      expect(seen).toMatchObject({ sheets: ["read"], refreshes: round });
    }
  },
);

test("a refresh token that was revoked has the user sign in again", async () => {
  const { url, seen, valid, refresh } = await startGuarded();
  const client = await connect(url, { folder: folderOf(), openBrowser: agree });
  valid.clear();
  refresh.clear();
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ sheets: ["read", "read"], refreshes: 1, exchanges: 2 });
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen.sheets).toHaveLength(2);
});

test("a call that needs a wider scope has the user sign in once, for that and what was given before", async () => {
  const { url, seen } = await startGuarded();
  const folder = folderOf();
  const client = await connect(url, { folder, openBrowser: agree });
  const calls = [1, 2, 3].map(() => client.callTool({ name: "any" }));
  expect(await Promise.all(calls)).toHaveLength(3);
  expect(seen).toMatchObject({ sheets: ["read", "read write"], calls: 3, registrations: 1 });
  // the wider tokens are kept, also for other bridges and after a refresh
  const other = await connect(url, { folder, openBrowser: agree });
  await other.callTool({ name: "any" });
  expect(seen).toMatchObject({ sheets: ["read", "read write"], calls: 4 });
});

test("two bridges that need a wider scope at the same time show the user one page", async () => {
  const { url, seen } = await startGuarded();
  const folder = folderOf();
  const first = await connect(url, { folder, openBrowser: agree });
  const second = await connect(url, { folder, openBrowser: agree });
  await Promise.all([first, second].map((client) => client.callTool({ name: "any" })));
  expect(seen).toMatchObject({ sheets: ["read", "read write"], calls: 2 });
});

test("the user is asked for the wider scopes at once after a revoked refresh token", async () => {
  const { url, seen, valid, refresh } = await startGuarded();
  const client = await connect(url, { folder: folderOf(), openBrowser: agree });
  await client.callTool({ name: "any" });
  valid.clear();
  refresh.clear();
  await client.callTool({ name: "any" });
  expect(seen.sheets).toEqual(["read", "read write", "read write"]);
});

test("a scope that the user does not give is asked for once, and the calls that need none go on", async () => {
  const { url, seen } = await startGuarded({ grant: () => "read" });
  const client = await connect(url, { folder: folderOf(), openBrowser: agree });
  for (let call = 0; call < 3; call++)
    await expect(client.callTool({ name: "any" })).rejects.toThrow(/wants scope "write"/);
  expect(seen).toMatchObject({ sheets: ["read", "read write"], calls: 0 });
  expect((await client.listTools()).tools).toEqual([]);
});

test("a user who closes the page for a wider scope is not asked again, and keeps the login", async () => {
  const { url, seen } = await startGuarded();
  let pages = 0;
  const client = await connect(url, {
    folder: folderOf(),
    userMs: 200,
    openBrowser: (page) => (++pages === 1 ? agree(page) : undefined),
  });
  for (let call = 0; call < 3; call++)
    await expect(client.callTool({ name: "any" })).rejects.toThrow(/did not sign in/);
  expect(pages).toBe(2);
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ sheets: ["read"], calls: 0 });
});

test("a client that the authorization server has forgotten is registered again", async () => {
  const { url, seen, valid, clients } = await startGuarded();
  const client = await connect(url, { folder: folderOf(), openBrowser: agree });
  valid.clear();
  clients.clear();
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ registrations: 2, sheets: ["read", "read"], exchanges: 2 });
});

test(
  "a server that makes up scopes does not open one page after the other",
  { tags: "slow" },
  async () => {
    let count = 0;
    const { url, seen } = await startGuarded({ wanted: () => `made-up-${++count}` });
    const client = await connect(url, { folder: folderOf(), openBrowser: agree });
    for (let call = 0; call < 20; call++)
      await expect(client.callTool({ name: "any" })).rejects.toThrow(/scope/);
    expect(seen.sheets).toHaveLength(1 + 8);
  },
);

test("a token of its own that lacks a scope is an error that says so, and that nothing ran", async () => {
  const { url, seen, valid } = await startGuarded();
  valid.set("mine", "read");
  const client = createHost("modern");
  await client.connect(
    bridged({ upstream: createHttpUpstream({ endpoint: url, token: "mine" }) }).transport,
  );
  await expect(client.callTool({ name: "any" })).rejects.toThrow(
    /wants scope "write": pass a token that has it\. It did not run/,
  );
  expect(seen).toMatchObject({ sheets: [], calls: 0 });
});

test.each([0, 429, 502, 503, 504])(
  "a refresh that fails for a moment (%i) opens no page: the call tries again",
  async (status) => {
    const { url, seen, valid } = await startGuarded({
      refreshStatus: () => (seen.refreshes === 1 ? status : undefined),
    });
    const client = await connect(url, { folder: folderOf(), openBrowser: agree });
    valid.clear();
    expect((await client.listTools()).tools).toEqual([]);
    expect(seen).toMatchObject({ sheets: ["read"], refreshes: 2, exchanges: 1 });
  },
);

test("an answer of an authorization server without an end is an error", async () => {
  const url = await listening((request, response) => {
    const isEndless = request.url !== "/mcp";
    response.writeHead(isEndless ? 200 : 401, { "content-type": "application/json" });
    const more = (): void => {
      while (!response.destroyed && response.write(" ".repeat(65_536)));
    };
    response.on("drain", more);
    if (isEndless) more();
    else response.end();
  });
  const signIn = { folder: folderOf(), openBrowser: agree };
  const upstream = createHttpUpstream({ endpoint: new URL("/mcp", url), signIn });
  const host = await rawHost(bridged({ upstream }).transport);
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect
    .poll(() => host.got, { timeout: 5_000 })
    .toMatchObject([{ id: 1, error: { message: expect.stringContaining("larger than 1 MiB") } }]);
});
