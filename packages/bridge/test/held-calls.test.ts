import { InMemoryTransport, type JSONRPCMessage } from "@modelcontextprotocol/client";
import type { BridgeLimits } from "@sluice/bridge";
import { expect, test } from "vitest";
import { bridged, rawHost } from "./bridged.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

// a host of 2026-07-28 in front of a server of 2025-11-25, both written out by the test

const _meta = {
  "io.modelcontextprotocol/protocolVersion": "2026-07-28",
  "io.modelcontextprotocol/clientCapabilities": { elicitation: {} },
};
interface Loose {
  readonly id?: unknown;
  readonly method?: string;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string };
}

async function connect(limits: Partial<BridgeLimits> = {}) {
  const got: Loose[] = [];
  const [bridgeEnd, serverEnd] = InMemoryTransport.createLinkedPair();
  const say = (message: object): void =>
    void serverEnd.send({ jsonrpc: "2.0", ...message } as JSONRPCMessage);
  serverEnd.onmessage = (sent) => {
    const message = sent as Loose;
    const { id, method } = message;
    if (method === "server/discover") say({ id, error: { code: -32_601, message: "no" } });
    else if (method === "initialize")
      say({ id, result: { protocolVersion: "2025-11-25", capabilities: {}, serverInfo: {} } });
    else if (method !== "notifications/initialized") got.push(message);
  };
  await serverEnd.start();
  const upstream = { name: "raw", kind: "process" as const, open: () => bridgeEnd };
  const host = await rawHost(bridged({ upstream, limits }).transport);
  const call = (id: number, more: object = {}): Promise<void> =>
    host.send({ id, method: "tools/call", params: { _meta, name: "t", ...more } });
  return { got, say, call, host, heard: host.got as Loose[] };
}

const ask = (id: number) => ({ id, method: "elicitation/create", params: { message: "?" } });

test("a question comes in the result, and its answer goes to the same open call", async () => {
  const { got, say, call, heard } = await connect();
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  expect(got[0]).toMatchObject({ id: 1, method: "tools/call", params: { name: "t" } });
  expect(JSON.stringify(got[0])).not.toContain("io.modelcontextprotocol");
  say(ask(7));
  say(ask(8));
  await expect.poll(() => heard.length).toBe(1);
  const { resultType, inputRequests, requestState } = heard[0]!.result!;
  expect(resultType).toBe("input_required");
  const keys = Object.keys(inputRequests as object);
  expect(keys).toHaveLength(2);

  // the answer of the server may come before the repetition: it waits
  const inputResponses = { [keys[0]!]: { action: "accept" }, [keys[1]!]: { action: "decline" } };
  await call(2, { requestState, inputResponses });
  await expect.poll(() => got.length).toBe(3);
  expect(got.slice(1)).toMatchObject([
    { id: 7, result: { action: "accept" } },
    { id: 8, result: { action: "decline" } },
  ]);
  say({ id: 1, result: { content: [] } });
  await expect.poll(() => heard[1]).toMatchObject({ id: 2, result: { resultType: "complete" } });
});

test("the server's answer waits for a host that holds questions", async () => {
  const { got, say, call, heard } = await connect();
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  say(ask(7));
  await expect.poll(() => heard.length).toBe(1);
  say({ id: 1, result: { content: [], early: true } });
  await call(2, { requestState: heard[0]!.result!["requestState"], inputResponses: {} });
  await expect.poll(() => heard[1]).toMatchObject({ id: 2, result: { early: true } });
});

test("a host that does not go on ends the call at the server, and a late repetition hears so", async () => {
  const { got, say, call, heard } = await connect({ askMs: 50 });
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  say(ask(7));
  await expect.poll(() => got.length).toBe(3);
  expect(got.slice(1)).toMatchObject([
    { id: 7, error: { message: "The client did not answer" } },
    { method: "notifications/cancelled", params: { requestId: 1 } },
  ]);
  const { requestState } = heard[0]!.result!;
  await call(2, { requestState, inputResponses: {} });
  await expect.poll(() => heard[1]).toMatchObject({ id: 2, error: { code: -32_602 } });
  await call(3, { requestState: "forged" });
  await expect.poll(() => heard[2]).toMatchObject({ id: 3, error: { code: -32_602 } });
});

test("a server that asks without end is refused", async () => {
  const { got, say, call, heard } = await connect({ maxRounds: 2 });
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  for (let round = 1; round <= 2; round++) {
    say(ask(round));
    await expect.poll(() => heard.length).toBe(round);
    const { requestState, inputRequests } = heard.at(-1)!.result!;
    const [key] = Object.keys(inputRequests as object);
    await call(10 + round, { requestState, inputResponses: { [key!]: { action: "accept" } } });
    await expect.poll(() => got.length).toBe(1 + round);
  }
  say(ask(99));
  await expect.poll(() => got.at(-1)).toMatchObject({ id: 99, error: { code: -32_603 } });
});

test("a host is not asked for what it did not declare, nor in another revision", async () => {
  const { got, say, call, host, heard } = await connect();
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  say({ id: 7, method: "sampling/createMessage", params: {} });
  await expect.poll(() => got[1]).toMatchObject({ id: 7, error: { code: -32_601 } });
  const later = { ..._meta, "io.modelcontextprotocol/protocolVersion": "2027-01-01" };
  await host.send({ id: 2, method: "tools/list", params: { _meta: later } });
  await expect
    .poll(() => heard[0])
    .toMatchObject({ id: 2, error: { code: -32_022, data: { supported: ["2026-07-28"] } } });
});

test("a question that comes between calls waits for the next one", async () => {
  const { got, say, call, heard } = await connect();
  await call(1);
  await expect.poll(() => got.length).toBe(1);
  say({ id: 1, result: { content: [] } });
  await expect.poll(() => heard.length).toBe(1);
  say(ask(7));
  await call(2);
  await expect
    .poll(() => heard[1])
    .toMatchObject({ id: 2, result: { resultType: "input_required" } });
});
