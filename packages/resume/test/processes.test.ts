import { generateKey, SluiceError } from "@sluice/core";
import { type StateStore, createMemoryStores } from "@sluice/state";
import { createMemoryEventStore, createMemoryStateStore } from "@sluice/state/internal";
import { rerunCalls } from "@sluice/resume/rerun";
import { expect, onTestFinished, test, vi } from "vitest";
import { answerTo, createResuming, eventsOf, linkOf, type ResumingOptions } from "./resuming.ts";

/** The state that processes share, and a way to start one more. */
function together({ leaseMs = 100, ...own }: { leaseMs?: number; state?: StateStore } = {}) {
  const keys = [generateKey()];
  const store = createMemoryEventStore();
  const { state = { ...createMemoryStateStore(), shared: true } } = own;
  return (options: Pick<ResumingOptions, "host"> & { state?: StateStore } = {}) => {
    const rerun = rerunCalls({ allows: () => true, server: () => server.server() });
    const server = createResuming({
      ...options,
      sluice: { keys, stores: { ...createMemoryStores(), state: options.state ?? state } },
      resume: { stores: { events: store }, leaseMs, rerun },
    });
    return server;
  };
}

test("an answer that comes to another process reaches the tool, if its owner sends it in its session", async () => {
  const start = together();
  const [one, two] = [start(), start()];
  const session = await one.open();
  const [, question] = await eventsOf(await one.call("ask", session));
  const answer = answerTo(question!, { n: 1 });
  const bob = { ...session, authorization: "Bearer bob" };
  expect((await two.post(answer, bob)).status).toBe(404);
  const elsewhere = await one.open();
  expect((await two.post(answer, elsewhere)).status).toBe(404);
  expect((await two.post({ ...answer, id: `${crypto.randomUUID()}?0` }, session)).status).toBe(404);
  expect(one.heard).toEqual([]);
  for (let n = 0; n < 2; n++) expect((await two.post(answer, session)).status).toBe(202);
  await expect.poll(() => one.heard).toEqual([{ n: 1 }]);
});

test("a response of ours is one where a framework replaced the global Response", async () => {
  const start = together();
  const [one, two] = [start(), start()];
  const session = await one.open();
  const [, question] = await eventsOf(await one.call("ask", session));
  vi.stubGlobal("Response", class extends Response {});
  onTestFinished(() => void vi.unstubAllGlobals());
  const bob = { ...session, authorization: "Bearer bob" };
  expect((await two.post(answerTo(question!), bob)).status).toBe(404);
});

test("an answer in an ended session is 404, and reaches no tool", async () => {
  const start = together({ leaseMs: 60_000 });
  const [one, two] = [start(), start()];
  const session = await one.open();
  const call = await one.call("ask", session);
  const [, question] = await eventsOf(call);
  await two.sluice.endSession(session["mcp-session-id"]!);
  expect((await two.post(answerTo(question!), session)).status).toBe(404);
  const streamId = question!.id!.split("/")[0]!;
  const page = await one.store.read(streamId, { after: 0, now: Date.now() });
  expect(page!.asks).toEqual([{ ask: expect.any(String), seq: 1 }]);
});

test("questions of two servers with one session have different ids, and each gets its own answer", async () => {
  const start = together();
  const [one, two] = [start(), start()];
  const session = await one.open();
  const questionOf = async (server: typeof one, headers: typeof session) =>
    (await eventsOf(await server.call("ask", headers))).find(({ message }) => message)!;
  const questions = [await questionOf(one, session), await questionOf(two, await two.open())];
  expect(questions[0]!.message.id).not.toBe(questions[1]!.message.id);
  await two.post(answerTo(questions[0]!, { n: 1 }), session);
  await expect.poll(() => one.heard).toEqual([{ n: 1 }]);
  expect(two.heard).toEqual([]);
});

test("a session that was deleted at one process ends its requests in all of them", async () => {
  const start = together();
  const [one, two] = [start(), start()];
  const [session, other] = [await one.open(), await one.open()];
  const calls = [await one.call("work", session), await one.call("work", other)];
  await two.sluice.endSession(session["mcp-session-id"]!);
  await expect.poll(() => one.aborted).toEqual(["work"]);
  expect((await eventsOf(calls[0]!)).filter(({ message }) => message)).toEqual([]);
  one.release();
  expect((await eventsOf(calls[1]!)).at(-1)?.message.result).toBeDefined();
});

test.each([
  ["of a session that another process opened is run again by a third one", {}, "result"],
  [
    "whose opening only the process knows that is gone is interrupted",
    { state: createMemoryStateStore() },
    "error",
  ],
] as const)("a request %s", async (_name, options, outcome) => {
  const start = together();
  const opener = start();
  const session = await opener.open();
  const worker = start({ host: opener.host, ...options });
  const call = await worker.call("ask", session);
  const [, question] = await eventsOf(call);
  await worker.handler.close();
  const third = start();
  const rest = await third.at(linkOf(call), session, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify([answerTo(question!, { n: 3 })]),
  });
  expect((await eventsOf(rest)).at(-1)?.message).toHaveProperty(outcome);
  expect(third.heard).toEqual(outcome === "result" ? [{ n: 3 }] : []);
});

test("a state store that is away keeps no session from opening and no answer from its link", async () => {
  const away = async () => Promise.reject(new SluiceError("unavailable", "away"));
  const state = { ...createMemoryStateStore(), shared: true, put: away, get: away };
  const start = together({ state, leaseMs: 60_000 });
  const opener = start();
  const session = await opener.open();
  const worker = start({ host: opener.host });
  const call = await worker.call("say", session);
  expect(call.headers.has("link")).toBe(true);
  expect((await eventsOf(call)).at(-1)?.message.result).toBeDefined();
  expect([opener.errors, worker.errors]).toMatchObject([
    [{ code: "unavailable" }],
    [{ code: "unavailable" }],
  ]);
});

test("openings are kept of callers with a principal, up to their bound, and not after the session", async () => {
  const kept = new Set<string>();
  const memory = createMemoryStateStore();
  const state: StateStore = {
    ...memory,
    shared: true,
    put: (id, ...rest) => (kept.add(id), memory.put(id, ...rest)),
    take: (id, now) => (kept.delete(id), memory.take(id, now)),
  };
  const server = together({ state })();
  const initialize = (version: string, headers: Record<string, string>) =>
    server.post(
      {
        id: 0,
        method: "initialize",
        params: {
          protocolVersion: "2025-11-25",
          clientInfo: { name: "c", version },
          capabilities: {},
        },
      },
      headers,
    );
  const authorization = "Bearer ann";
  await (await initialize("1", {})).text();
  await (await initialize("x".repeat(4_096), { authorization })).text();
  expect(kept).toEqual(new Set());
  const session = await server.open();
  expect([...kept]).toEqual([expect.stringMatching(/^opening /)]);
  expect([...kept][0]).not.toContain(session["mcp-session-id"]);
  const { endpoint } = server.sluice;
  expect((await server.send(endpoint.url, { method: "DELETE", headers: session })).status).toBe(
    200,
  );
  expect([...kept]).toEqual([]);
});
