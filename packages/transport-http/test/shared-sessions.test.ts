import { McpServer } from "@modelcontextprotocol/server";
import { generateKey, SluiceError } from "@sluice/core";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createSessions } from "@sluice/transport-http/internal";
import { expect, onTestFinished, test } from "vitest";

const createSharedStore = (): StateStore => ({ ...createMemoryStateStore(), shared: true });

/** A process that gives the names of its clients. */
function process(state: StateStore) {
  let started = 0;
  const sluice = createSluice({
    storage: createMemoryBackend({}),
    baseUri: "files://demo/",
    endpoint: "http://localhost/mcp",
    keys: [generateKey()],
    principal: ({ authInfo }) =>
      authInfo && { issuer: "test", subject: authInfo.clientId, clientId: "app" },
    stores: { ...createMemoryStores(), state },
    onError: () => {},
    onWarning: () => {},
  });
  const sessions = createSessions(() => {
    started += 1;
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    mcp.registerTool("who", {}, () => ({
      content: [{ type: "text", text: mcp.server.getClientVersion()?.name ?? "nobody" }],
    }));
    return mcp;
  }, sluice);
  onTestFinished(() => sessions.close());
  const ask = async (
    message: object | undefined,
    options: Partial<Record<string, string>> = {},
  ) => {
    const { session, client = "ann", method = "POST" } = options;
    const { accept = "application/json, text/event-stream" } = options;
    const headers = {
      accept,
      "content-type": "application/json",
      ...(session !== undefined && { "mcp-session-id": session }),
    };
    const body = message && JSON.stringify({ jsonrpc: "2.0", ...message });
    const request = new Request("http://localhost/mcp", {
      method,
      headers,
      ...(body !== undefined && { body }),
    });
    const authInfo = { token: "token", clientId: client, scopes: [] };
    const response = await sessions.fetch(request, client === "" ? {} : { authInfo });
    const { status } = response;
    return { status, headers: response.headers, text: await response.text() };
  };
  return { ask, started: () => started };
}

const initialize = {
  id: 1,
  method: "initialize",
  params: {
    protocolVersion: "2025-11-25",
    capabilities: {},
    clientInfo: { name: "the one client", version: "1" },
  },
};
const who = { id: 2, method: "tools/call", params: { name: "who" } };

test("a process that takes a session over knows what its client said when it opened it, once", async () => {
  const state = createSharedStore();
  const [a, b] = [process(state), process(state)];
  const session = (await a.ask(initialize)).headers.get("mcp-session-id")!;
  const answers = await Promise.all([2, 3, 4].map((id) => b.ask({ ...who, id }, { session })));
  for (const { text } of answers) expect(text).toContain("the one client");
  expect([a.started(), b.started()]).toEqual([1, 1]);
});

test("a session is for the principal that opened it, in the process that knows it as well", async () => {
  const state = createSharedStore();
  const [a, b] = [process(state), process(state)];
  const session = (await a.ask(initialize)).headers.get("mcp-session-id")!;
  for (const each of [a, b])
    expect((await each.ask(who, { session, client: "bob" })).status).toBe(404);
  expect((await b.ask(who, { session: crypto.randomUUID() })).status).toBe(404);
});

test("a session that was opened without credentials belongs to one principal in every process", async () => {
  const state = createSharedStore();
  const [a, b] = [process(state), process(state)];
  const session = (await a.ask(initialize, { client: "" })).headers.get("mcp-session-id")!;
  expect((await a.ask(who, { session, client: "" })).status).toBe(200);
  expect((await b.ask(who, { session, client: "ann" })).status).toBe(200);
  for (const each of [a, b]) {
    expect((await each.ask(who, { session, client: "bob" })).status).toBe(404);
    expect((await each.ask(who, { session, client: "" })).status).toBe(404);
    expect((await each.ask(who, { session, client: "ann" })).status).toBe(200);
  }
  const contested = (await a.ask(initialize, { client: "" })).headers.get("mcp-session-id")!;
  const statuses = await Promise.all(
    ["ann", "bob"].map(
      async (client, n) => (await [a, b][n]!.ask(who, { session: contested, client })).status,
    ),
  );
  expect(statuses.toSorted((one, other) => one - other)).toEqual([200, 404]);
});

test("a session that was ended is over in every process", async () => {
  const state = createSharedStore();
  const [a, b] = [process(state), process(state)];
  const session = (await a.ask(initialize)).headers.get("mcp-session-id")!;
  await b.ask(who, { session });
  expect((await b.ask(undefined, { session, method: "DELETE" })).status).toBe(200);
  for (const each of [a, b]) expect((await each.ask(who, { session })).status).toBe(404);
});

test("a session is neither opened nor resumed while the store is down: 503, with a time to come back", async () => {
  const state = createSharedStore();
  const a = process(state);
  const session = (await a.ask(initialize)).headers.get("mcp-session-id")!;
  const down = () => Promise.reject(new SluiceError("unavailable", "test: down"));
  const b = process({ ...state, get: down, put: down });
  for (const answer of [await b.ask(initialize), await b.ask(who, { session })])
    expect([answer.status, answer.headers.get("retry-after")]).toEqual([503, "1"]);
});

/** A store that tells what is kept in it. */
function watched() {
  const state = createSharedStore();
  const kept = new Map<string, Uint8Array>();
  const put: StateStore["put"] = async (id, record, terms) => {
    await state.put(id, record, terms);
    kept.set(id, record);
  };
  const take: StateStore["take"] = (id, now) => {
    kept.delete(id);
    return state.take(id, now);
  };
  return { kept, state: { ...state, put, take } };
}

test("nothing is kept of an opening that is too large, or that was refused", async () => {
  const { kept, state } = watched();
  const a = process(state);
  const clientInfo = { name: "x".repeat(20_000), version: "1" };
  const large = { ...initialize, params: { ...initialize.params, clientInfo } };
  expect((await a.ask(large)).status).toBe(413);
  expect((await a.ask(initialize, { accept: "text/html" })).status).toBe(406);
  expect(kept.size).toBe(0);
  expect((await a.ask(initialize)).status).toBe(200);
  expect(kept.size).toBe(1);
});

test("a dump of the store has no session id, and an id may be of any length", async () => {
  const { kept, state } = watched();
  const a = process(state);
  const session = (await a.ask(initialize)).headers.get("mcp-session-id")!;
  for (const [name, record] of kept) {
    expect(name.length).toBeLessThanOrEqual(128);
    expect(name + Buffer.from(record).toString()).not.toContain(session);
  }
  const get: StateStore["get"] = async (name) => {
    expect(name.length).toBeLessThanOrEqual(128);
    return undefined;
  };
  const b = process({ ...state, get });
  expect((await b.ask(who, { session: "é".repeat(5_000) })).status).toBe(404);
});

test("a session whose end could not be kept goes on until it is ended again", async () => {
  const state = createSharedStore();
  const session = (await process(state).ask(initialize)).headers.get("mcp-session-id")!;
  const down = () => Promise.reject(new SluiceError("unavailable", "test: down"));
  const b = process({ ...state, take: down });
  await b.ask(who, { session });
  expect((await b.ask(undefined, { session, method: "DELETE" })).status).toBe(503);
  expect((await b.ask(who, { session })).text).toContain("the one client");
});
