import { McpServer, requireScopes } from "@modelcontextprotocol/server";
import type { AccessDecision, AttachOptions, AuditRecord, SluiceOptions } from "@sluice/server";
import { createMemoryBackend, type MemoryBackend, wrapBackend } from "@sluice/storage";
import { expect, onTestFinished, test, vi } from "vitest";
import { alice, createHouse } from "./redeeming.ts";
import { openSession } from "./session.ts";
import { eras, talkTo } from "./talking.ts";

/** A session with a server of its own. */
async function connect(
  options: Partial<SluiceOptions> = {},
  register: (mcp: McpServer) => void = () => {},
  attach: AttachOptions = {},
) {
  const memory = createMemoryBackend({ "a.txt": "1", "b.txt": "1", "hidden.txt": "1" });
  let open = 0;
  const storage = wrapBackend(memory, {
    watch: (watch) =>
      async function* (watchOptions) {
        open++;
        try {
          yield* watch(watchOptions);
        } finally {
          open--;
        }
      },
  });
  const house = createHouse({
    principal: () => alice,
    storage,
    ...options,
  } as Partial<SluiceOptions>);
  const mcp = new McpServer({ name: "test", version: "1.0.0" });
  register(mcp);
  house.sluice.attach(mcp, attach);
  return { ...house, ...(await openSession(mcp)), memory, watches: () => open };
}

type Session = Awaited<ReturnType<typeof connect>>;

const updated = (name: string) => ({
  jsonrpc: "2.0",
  method: "notifications/resources/updated",
  params: { uri: `files://demo/${name}` },
});
const listChanged = { jsonrpc: "2.0", method: "notifications/resources/list_changed" };

/** Changes until it is heard: what was changed before a watch was armed need not be. */
async function heard(session: Session, change: (memory: MemoryBackend) => void): Promise<void> {
  session.notifications.length = 0;
  await expect.poll(() => session.watches()).toBe(1);
  change(session.memory);
  await vi.waitFor(() => expect(session.notifications).not.toEqual([]), { timeout: 10_000 });
}

test("a change is told to who subscribed, and no more after unsubscribing [MCP/subscriptions/must-notify-subscribed] [ARTICLE/5.2/subscribe] [ARTICLE/5.2/unsubscribe]", async () => {
  const session = await connect();
  expect(await session.subscribe("a.txt")).toMatchObject({ result: {} });
  await session.subscribe("b.txt");
  await heard(session, (memory) => {
    memory.put("a.txt", "2");
    memory.put("hidden.txt", "2");
  });
  expect(session.notifications).toEqual([updated("a.txt")]);
  await session.unsubscribe("a.txt");
  await heard(session, (memory) => {
    memory.put("a.txt", "3");
    memory.put("b.txt", "3");
  });
  expect(session.notifications).toEqual([updated("b.txt")]);
  await session.unsubscribe("b.txt");
  await expect.poll(() => session.watches()).toBe(0);
  await session.close();
});

test("each of several sessions of one server is notified only of its own subscriptions [MCP/subscriptions/must-notify-subscribed]", async () => {
  const session = await connect();
  const open = () =>
    openSession(session.sluice.attach(new McpServer({ name: "test", version: "1.0.0" })));
  const [other, reader] = [await open(), await open()];
  await session.subscribe("a.txt");
  await other.subscribe("b.txt");
  await reader.call("resources/list");
  await heard(session, (memory) => memory.put("a.txt", "2"));
  session.memory.put("b.txt", "2");
  await vi.waitFor(() => expect(other.notifications).not.toEqual([]), { timeout: 10_000 });
  expect(session.notifications).toEqual([updated("a.txt")]);
  expect(other.notifications).toEqual([updated("b.txt")]);
  expect(reader.notifications).toEqual([]);
  for (const each of [session, other, reader]) await each.close();
});

test("a client knows a resource by the URI that it sent", async () => {
  const session = await connect();
  await session.subscribe("%61.txt");
  await heard(session, (memory) => memory.put("a.txt", "2"));
  expect(session.notifications).toEqual([updated("%61.txt")]);
  await session.close();
});

test("a caller that was given a list is notified of changes, unless all of the change is hidden [MCP/list-changed/should-notify] [ARTICLE/5.2/list-changed]", async () => {
  const session = await connect({
    access: (_who, uri) => (uri.includes("hidden") ? "hide" : "allow"),
  });
  await session.call("resources/list");
  await heard(session, (memory) => {
    void memory.remove("hidden.txt");
    memory.put("new.txt", "1");
  });
  expect(session.notifications).toEqual([listChanged]);
  await session.subscribe("b.txt");
  await heard(session, (memory) => {
    memory.put("hidden-2.txt", "1");
    memory.put("b.txt", "2");
  });
  expect(session.notifications).toEqual([updated("b.txt")]);
  await session.close();
});

test("hundreds of changes of a list are decided a hundred at a time", async () => {
  const pages: number[] = [];
  const session = await connect({
    access: () => "allow",
    accessPage: (_who, uris) => {
      pages.push(uris.length);
      return uris.map((uri) => (/seen|txt/.test(uri) ? "allow" : "hide"));
    },
  });
  await session.call("resources/list");
  pages.length = 0;
  await heard(session, (memory) => {
    for (let n = 0; n < 250; n++) memory.put(`secret-${n}`, "1");
    memory.put("seen", "1");
  });
  expect(session.notifications).toEqual([listChanged]);
  expect(Math.max(...pages)).toBe(100);
  expect(pages.length).toBeLessThan(10);
  await session.close();
});

test("a missing and a hidden resource are refused alike [MCP/security/should-check-permissions]", async () => {
  const session = await connect({
    access: (_who, uri) => (uri.includes("hidden") ? "hide" : "allow"),
  });
  const answers = [await session.subscribe("hidden.txt"), await session.subscribe("missin.txt")];
  const [hidden, missing] = answers.map(({ error }) =>
    JSON.stringify(error).replaceAll(/hidden|missin/g, "x"),
  );
  expect(hidden).toBe(missing);
  // the SDK makes -32602 of -32002, in both eras
  expect(answers[0].error).toMatchObject({ code: -32602, data: { reason: "not_found" } });
  expect(session.watches()).toBe(0);
  expect(session.records).toMatchObject([
    { action: "subscribe", outcome: "denied", reason: "hidden" },
    { action: "subscribe", outcome: "denied", reason: "not_found" },
  ]);
  await session.close();
});

test("nobody is told of changes whose subscription is not on record where records are required", async () => {
  const kept: AuditRecord[] = [];
  let isBroken = true;
  const sink = (record: AuditRecord): void => {
    if (isBroken) throw new Error("disk full");
    kept.push(record);
  };
  const session = await connect({ audit: { sink, required: true } });
  expect((await session.subscribe("a.txt")).error.data.reason).toBe("busy");
  expect(session.watches()).toBe(0);
  isBroken = false;
  expect(await session.subscribe("a.txt")).toMatchObject({ result: {} });
  expect(kept).toMatchObject([{ outcome: "begun" }, { outcome: "complete" }]);
  await session.close();
});

test("access is asked again before each notification", async () => {
  let decision: AccessDecision = "allow";
  const session = await connect({
    access: (_who, uri, action) =>
      action === "subscribe" && uri.includes("a.txt") ? decision : "allow",
  });
  await session.subscribe("a.txt");
  await session.subscribe("b.txt");
  decision = "hide";
  await heard(session, (memory) => {
    memory.put("a.txt", "2");
    memory.put("b.txt", "2");
  });
  expect(session.notifications).toEqual([updated("b.txt")]);
  await session.close();
});

test("a slow client gets little of a flood of changes that was decided before its access was withdrawn", async () => {
  const names = Array.from({ length: 300 }, (_, n) => `f${n}`);
  const storage = createMemoryBackend(
    Object.fromEntries([...names, "last"].map((name) => [name, "1"])),
  );
  let isOpen = true;
  const { sluice } = createHouse({
    principal: () => alice,
    storage,
    access: (_who, uri) => (isOpen || uri.endsWith("last") ? "allow" : "hide"),
  });
  const resourceSubscriptions = [...names, "last"].map((name) => `files://demo/${name}`);
  const listening = await sluice.host.listen({
    id: 1,
    params: { notifications: { resourceSubscriptions } },
    caller: { header: () => undefined },
  });
  if (!("next" in listening)) throw new Error("refused");
  const next = async (): Promise<string> => ((await listening.next()) as any).params.uri;
  for (const name of names) storage.put(name, "2");
  await next();
  isOpen = false;
  storage.put("last", "2");
  let told = 1;
  while (!(await next()).endsWith("last")) told += 1;
  expect(told).toBeLessThanOrEqual(100);
  listening.close();
});

test("a listen stream ends when the access token of its request does", async () => {
  vi.useFakeTimers();
  onTestFinished(() => void vi.useRealTimers());
  const { sluice } = createHouse({ principal: () => alice });
  const expiresAt = Math.floor(Date.now() / 1_000) + 60;
  const authInfo = { token: "t", clientId: "app", scopes: [], expiresAt };
  const listening = await sluice.host.listen({
    id: 1,
    params: { notifications: { resourceSubscriptions: ["files://demo/a.bin"] } },
    caller: { header: () => undefined, authInfo },
  });
  if (!("next" in listening)) throw new Error("refused");
  let isOver = false;
  const over = listening.next().then((notification) => {
    isOver = true;
    return notification;
  });
  await vi.advanceTimersByTimeAsync(50_000);
  expect(isOver).toBe(false);
  await vi.advanceTimersByTimeAsync(11_000);
  expect(await over).toBeUndefined();
});

test("the 1,001st subscription of a session is refused for now", { tags: "slow" }, async () => {
  const storage = createMemoryBackend(
    Object.fromEntries(Array.from({ length: 1_001 }, (_, n) => [String(n), ""])),
  );
  const session = await connect({ storage });
  for (let n = 0; n < 1_000; n++)
    expect(await session.subscribe(String(n))).toHaveProperty("result");
  // the same once more is nothing new
  expect(await session.subscribe("0")).toHaveProperty("result");
  expect((await session.subscribe("1000")).error.data.reason).toBe("busy");
  await session.unsubscribe("0");
  expect(await session.subscribe("1000")).toHaveProperty("result");
  await session.close();
});

test("nothing is left when the client goes", async () => {
  const session = await connect();
  await session.call("resources/list");
  await session.subscribe("a.txt");
  await expect.poll(() => session.watches()).toBe(1);
  await session.close();
  await expect.poll(() => session.watches()).toBe(0);
});

test("nothing is begun for a client that went while its permission was looked up", async () => {
  const answers: (() => void)[] = [];
  const session = await connect({
    scopeChallenge: () => new Promise((resolve) => answers.push(() => resolve(undefined))),
  });
  void session.subscribe("a.txt");
  await expect.poll(() => answers).toHaveLength(1);
  await session.close();
  answers[0]!();
  await expect.poll(() => session.records).toHaveLength(1);
  expect(session.records).toMatchObject([{ action: "subscribe", outcome: "aborted" }]);
  expect(session.watches()).toBe(0);
});

test("scopes that reading needs are needed to subscribe", async () => {
  const session = await connect({
    scopeChallenge: ({ authInfo }) =>
      requireScopes("files:read")({
        request: { jsonrpc: "2.0", id: 1, method: "resources/read" },
        authInfo: authInfo ?? { token: "t", clientId: "c", scopes: [] },
      }),
  });
  expect((await session.subscribe("a.txt")).error.data.reason).toBe("forbidden");
  await session.close();
});

test("the author's subscriptions stay the author's", async () => {
  const seen: string[] = [];
  const session = await connect({}, (mcp) => {
    mcp.registerResource("own", "files://demo/own.txt", {}, () => ({ contents: [] }));
    for (const method of ["resources/subscribe", "resources/unsubscribe"] as const)
      mcp.server.setRequestHandler(method, ({ params }) => {
        seen.push(`${method} ${params.uri}`);
        return {};
      });
  });
  for (const uri of ["app://config", "files://demo/own.txt"]) {
    expect(await session.call("resources/subscribe", { uri })).toMatchObject({ result: {} });
    expect(await session.call("resources/unsubscribe", { uri })).toMatchObject({ result: {} });
  }
  expect(seen).toEqual([
    "resources/subscribe app://config",
    "resources/unsubscribe app://config",
    "resources/subscribe files://demo/own.txt",
    "resources/unsubscribe files://demo/own.txt",
  ]);
  await session.close();
});

test("without streaming, what is too large is to be read in parts", async () => {
  const session = await connect({ maxReadBytes: 0 }, () => {}, { stream: false });
  const { error } = await session.call("resources/read", { uri: "files://demo/a.txt" });
  expect(error.data).toMatchObject({
    reason: "too_large",
    suggestion: expect.stringContaining("ask for a range"),
  });
  await session.close();
});

test("a server without sessions says that it cannot, in the legacy era", async () => {
  const talk = talkTo(createHouse({ principal: () => alice }).sluice);
  const params = { uri: "files://demo/a.bin" };
  const { error } = (await talk("legacy", "resources/subscribe", { params })).message;
  expect(error!.code).toBe(-32601);
});

test.each(eras)(
  "a %s server declares what it can tell [ARTICLE/3/capabilities] [MCP/resources/must-declare] [MCP/completion/must-declare]",
  async (era) => {
    const isModern = era === "modern";
    const params = {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "raw", version: "1" },
    };
    const talk = talkTo(createHouse().sluice);
    const { message } = await talk(era, isModern ? "server/discover" : "initialize", { params });
    const { resources, completions } = message.result.capabilities;
    // without a session there is no way back to a legacy client
    expect(resources).toEqual({
      listChanged: true,
      stream: true,
      ...(isModern && { subscribe: true }),
    });
    expect(completions).toEqual({});
  },
);
