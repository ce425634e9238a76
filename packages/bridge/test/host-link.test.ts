import type { JSONRPCMessage, JSONRPCRequest } from "@modelcontextprotocol/client";
import { expect, test } from "vitest";
import { HostLink, sizeOf } from "../src/relay/host-link.ts";
import { bridged, rawHost } from "./bridged.ts";
import { scripted } from "./scripted.ts";

/** A host that takes what is sent when `take` is called. */
function slowHost() {
  const sent: JSONRPCMessage[] = [];
  const waiting: (() => void)[] = [];
  const link = new HostLink({
    start: () => Promise.resolve(),
    close: () => Promise.resolve(),
    send: (message) => {
      sent.push(message);
      return new Promise<void>((resolve) => waiting.push(resolve));
    },
  });
  return { link, sent, take: () => waiting.shift()?.() };
}

const log = (data: unknown): JSONRPCMessage => ({
  jsonrpc: "2.0",
  method: "notifications/message",
  params: { level: "info", data },
});
const question = (id: number, params = {}): JSONRPCRequest => ({
  jsonrpc: "2.0",
  id,
  method: "elicitation/create",
  params,
});
const settled = (): Promise<void> => new Promise((resolve) => setImmediate(resolve));

function nested(levels: number): unknown {
  let value: unknown = 1;
  for (let level = 0; level < levels; level++) value = [value];
  return value;
}

test("few large messages that wait hold the server back, as many small ones do", async () => {
  const { link, take } = slowHost();
  for (let count = 0; count < 64; count++) link.send(log("small"));
  expect(link.ready()).toBeUndefined();
  link.send(log("x".repeat(2 ** 20)));
  const ready = link.ready();
  expect(ready).toBeDefined();
  for (let count = 0; count < 64; count++) take();
  await settled();
  expect(link.ready()).toBe(ready);
  take();
  await ready;
  expect(link.ready()).toBeUndefined();
});

test("the size of a message is about that of its JSON", () => {
  const message = log({ text: "x".repeat(1_000), list: [1, null, true, { a: "b" }], more: [[]] });
  const { length } = JSON.stringify(message);
  expect(sizeOf(message)).toBeGreaterThan(length * 0.8);
  expect(sizeOf(message)).toBeLessThan(length * 1.2);
  expect(sizeOf(nested(128))).toBeGreaterThan(0);
  expect(sizeOf(nested(129))).toBeNaN();
});

test("an answer that is nested too deep becomes an error, other messages of that kind are dropped", () => {
  const { link, sent } = slowHost();
  const deep = nested(100_000);
  link.send(log(deep));
  link.send({ jsonrpc: "2.0", id: 7, result: { deep } });
  expect(link.sendServerRequest(question(1, { deep }))).toBe(false);
  expect(sent).toEqual([
    {
      jsonrpc: "2.0",
      id: 7,
      error: { code: -32_603, message: expect.stringContaining("nested too deep") },
    },
  ]);
});

test("a host has at most 1,000 questions of a server; those that it takes back count no more", () => {
  const { link, sent } = slowHost();
  for (let id = 0; id < 1_000; id++) expect(link.sendServerRequest(question(id))).toBe(true);
  expect(link.sendServerRequest(question(1_000))).toBe(false);
  expect(sent).toHaveLength(1_000);
  link.endServerRequest(0);
  expect(link.sendServerRequest(question(1_000))).toBe(true);
});

test(
  "a server hears that its question is one too many, and may take questions back",
  { tags: "slow" },
  async () => {
    const bridge = bridged({
      upstream: scripted(`(m) => {
      if (m.method === "initialize") start(m);
      else if (m.method === "tools/call") {
        for (let id = 0; id <= 1000; id++) {
          say({ id: "q" + id, method: "elicitation/create", params: {} });
          if (m.params.name === "patient") say({ method: "notifications/cancelled", params: { requestId: "q" + id } });
        }
        if (m.params.name === "patient") answer(m.id, {});
      } else if (m.error) say({ id: 1, error: m.error });
    }`),
    });
    const host = await rawHost(bridge.transport);
    const params = { protocolVersion: "2025-11-25", capabilities: { elicitation: {} } };
    await host.send({ id: 0, method: "initialize", params });
    await expect.poll(() => host.got.length).toBe(1);
    await host.send({ id: 2, method: "tools/call", params: { name: "patient" } });
    await expect.poll(() => host.got.at(-1)).toMatchObject({ id: 2, result: {} });
    await host.send({ id: 1, method: "tools/call", params: { name: "greedy" } });
    await expect
      .poll(() => host.got.at(-1))
      .toMatchObject({ id: 1, error: { message: "The client has too many questions to answer" } });
  },
);
