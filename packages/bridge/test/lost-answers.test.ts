import { AsyncResource } from "node:async_hooks";
import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { createHttpUpstream } from "@sluice/bridge";
import type { FetchLike } from "@sluice/core";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { bridged, rawHost } from "./bridged.ts";
import { scriptedHere } from "./scripted.ts";

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout", "performance"] });
  // as real timers do, they run in the context in which they were set
  const { setTimeout } = globalThis;
  vi.stubGlobal("setTimeout", (run: () => void, ms: number) =>
    setTimeout(AsyncResource.bind(run), ms),
  );
});
afterEach(() => {
  vi.unstubAllGlobals();
  vi.useRealTimers();
});

const refused = (): never => {
  const cause = Object.assign(new Error("connect"), { code: "ECONNREFUSED" });
  throw new TypeError("fetch failed", { cause });
};
const reset = (): never => {
  const cause = Object.assign(new Error("read ECONNRESET"), { code: "ECONNRESET" });
  throw new TypeError("fetch failed", { cause });
};
const status = (code: number) => () => new Response(null, { status: code });

const json = (id: unknown, result: object): Response =>
  Response.json({ jsonrpc: "2.0", id, result });

/** A server of 2025-11-25 whose calls of tools end in `events` and nothing more; `rest` gets the GET for the rest. */
function breaking(events: string, rest: () => Response): FetchLike {
  return async (_url, init = {}) => {
    const isResume = new Headers(init.headers).has("last-event-id");
    if (init.method !== "POST") return isResume ? rest() : new Response(null, { status: 405 });
    const { id, method } = JSON.parse(init.body as string) as { id?: unknown; method: string };
    if (method === "initialize")
      return json(id, { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: {} });
    if (id === undefined) return new Response(null, { status: 202 });
    return new Response(events, { headers: { "content-type": "text/event-stream" } });
  };
}

async function started(bridge: ReturnType<typeof bridged>) {
  const host = await rawHost(bridge.transport);
  const params = { protocolVersion: "2025-11-25", capabilities: {}, clientInfo: {} };
  await host.send({ id: 0, method: "initialize", params });
  await vi.waitFor(() => expect(host.got).toHaveLength(1));
  await host.send({ method: "notifications/initialized" });
  return host;
}

/** Milliseconds until the host has `count` messages. */
async function waitFor(got: readonly JSONRPCMessage[], count: number): Promise<number> {
  let waitedMs = 0;
  for (; got.length < count && waitedMs < 120_000; waitedMs += 250)
    await vi.advanceTimersByTimeAsync(250);
  return waitedMs;
}

const here = "http://127.0.0.1:7000/mcp";
const elsewhere = "https://mcp.example.com/mcp";
const withId = "id: 1\ndata: \n\n";

describe("a call whose server ends in the middle of it fails", () => {
  test.each`
    events      | rest           | url          | minMs     | maxMs     | notes
    ${": hi\n"} | ${reset}       | ${here}      | ${0}      | ${250}    | ${[]}
    ${withId}   | ${status(404)} | ${here}      | ${0}      | ${750}    | ${[]}
    ${withId}   | ${status(410)} | ${elsewhere} | ${0}      | ${750}    | ${[]}
    ${withId}   | ${refused}     | ${here}      | ${0}      | ${4_500}  | ${["nothing listens there"]}
    ${withId}   | ${refused}     | ${elsewhere} | ${20_000} | ${33_000} | ${["waiting up to 25 s"]}
    ${withId}   | ${reset}       | ${here}      | ${20_000} | ${33_000} | ${["ECONNRESET"]}
    ${withId}   | ${status(503)} | ${here}      | ${20_000} | ${33_000} | ${["HTTP 503"]}
  `(
    "within $maxMs ms: $events then $rest at $url",
    async ({ events, rest, url, minMs, maxMs, notes }) => {
      const upstream = createHttpUpstream({
        endpoint: url,
        wrapFetch: () => breaking(events, rest),
      });
      const bridge = bridged({ upstream });
      const host = await started(bridge);
      await host.send({ id: 1, method: "tools/call", params: { name: "work" } });
      const waitedMs = await waitFor(host.got, 2);
      expect(waitedMs).toBeLessThanOrEqual(maxMs);
      expect(waitedMs).toBeGreaterThanOrEqual(minMs);
      expect(host.got[1]).toMatchObject({
        id: 1,
        error: { message: expect.stringContaining("It may have run") },
      });
      const waits = bridge.notes.filter((line) => line.includes("for the rest of a response"));
      expect(waits).toEqual(notes.map((words: string) => expect.stringContaining(words)));
    },
  );
});

test("a response whose server is back in time arrives", async () => {
  const answers = [refused, () => new Response(`data: ${result}\n\n`, { headers: eventStream })];
  const result = JSON.stringify({ jsonrpc: "2.0", id: 1, result: { content: [] } });
  const eventStream = { "content-type": "text/event-stream" };
  const upstream = createHttpUpstream({
    endpoint: here,
    wrapFetch: () => breaking(withId, () => answers.shift()!()),
  });
  const host = await started(bridged({ upstream }));
  await host.send({ id: 1, method: "tools/call", params: { name: "work" } });
  await waitFor(host.got, 2);
  expect(host.got[1]).toEqual({ jsonrpc: "2.0", id: 1, result: { content: [] } });
});

const tool = (name: string, annotations?: object) => ({ name, inputSchema: {}, annotations });
const tools = [
  tool("reads", { readOnlyHint: true }),
  tool("sets", { readOnlyHint: false, idempotentHint: true }),
  tool("writes", { readOnlyHint: false }),
  tool("says-no", { idempotentHint: "yes" }),
  tool("plain"),
];

describe("after a lost connection", () => {
  test.each`
    name         | isRepeatable
    ${"reads"}   | ${true}
    ${"sets"}    | ${true}
    ${"writes"}  | ${false}
    ${"says-no"} | ${false}
    ${"plain"}   | ${false}
    ${"unknown"} | ${false}
  `("a call of the tool $name can be repeated: $isRepeatable", async ({ name, isRepeatable }) => {
    const upstream = scriptedHere((message, { answer, start }) => {
      if (message["method"] === "initialize") start(message);
      if (message["method"] === "tools/list") answer(message["id"], { tools });
    });
    const { host, end } = await startLosable(upstream);
    await host.send({ id: 1, method: "tools/list" });
    await vi.waitFor(() => expect(host.got).toHaveLength(2));
    await host.send({ id: 2, method: "tools/call", params: { name } });
    await vi.advanceTimersByTimeAsync(10);
    end();
    await waitFor(host.got, 3);
    expect(host.got[2]).toMatchObject({
      id: 2,
      error: {
        message: expect.stringContaining(isRepeatable ? "It can be repeated" : "It may have run"),
        data: { retryable: isRepeatable },
      },
    });
  });
});

test("the newest list says what a tool is", async () => {
  let isFirst = true;
  const upstream = scriptedHere((message, { answer, start }) => {
    if (message["method"] === "initialize") start(message);
    if (message["method"] === "tools/list")
      answer(message["id"], { tools: [tool("reads", { readOnlyHint: isFirst })] });
    isFirst &&= message["method"] !== "tools/list";
  });
  const { host, end } = await startLosable(upstream);
  await host.send({ id: 1, method: "tools/list" });
  await host.send({ id: 2, method: "tools/list" });
  await vi.waitFor(() => expect(host.got).toHaveLength(3));
  await host.send({ id: 3, method: "tools/call", params: { name: "reads" } });
  await vi.advanceTimersByTimeAsync(10);
  end();
  await waitFor(host.got, 4);
  expect(host.got[3]).toMatchObject({ error: { data: { retryable: false } } });
});

test("a call of a read-only tool is sent again while a proxy does not reach the server", async () => {
  let calls = 0;
  const serve: FetchLike = async (url, init = {}) => {
    const { id, method } = JSON.parse((init.body ?? "{}") as string) as {
      id?: unknown;
      method?: string;
    };
    if (method === "tools/list") return json(id, { tools });
    if (method !== "tools/call") return breaking("", refused)(url, init);
    calls += 1;
    return calls < 3 ? new Response(null, { status: 502 }) : json(id, { content: [] });
  };
  const upstream = createHttpUpstream({ endpoint: elsewhere, wrapFetch: () => serve });
  const host = await started(bridged({ upstream }));
  await host.send({ id: 1, method: "tools/list" });
  await vi.waitFor(() => expect(host.got).toHaveLength(2));
  await host.send({ id: 2, method: "tools/call", params: { name: "reads" } });
  await waitFor(host.got, 3);
  expect(host.got[2]).toMatchObject({ id: 2, result: { content: [] } });
  await host.send({ id: 3, method: "tools/call", params: { name: "writes" } });
  calls = 0;
  await waitFor(host.got, 4);
  expect(host.got[3]).toMatchObject({
    error: { message: expect.stringContaining("It may have run") },
  });
});

/** A bridge with a host, whose connection to the server ends when `end` is called. */
async function startLosable(upstream: ReturnType<typeof scriptedHere>) {
  let end: (() => void) | undefined;
  const open: typeof upstream.open = async (flow) => {
    const transport = await upstream.open(flow);
    end = () => transport.onclose?.();
    return transport;
  };
  const host = await started(bridged({ upstream: { ...upstream, open } }));
  return { host, end: () => end?.() };
}
