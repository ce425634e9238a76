import type { JSONRPCMessage } from "@modelcontextprotocol/client";
import { describe, expect, test } from "vitest";
import { EarlyMessages, SessionHost } from "../src/hosts/session-host.ts";
import { pacedEvents } from "../src/hosts/paced-events.ts";
import { relatedCall } from "../src/hosts/related-call.ts";
import { forHost, namesOf, renamed } from "../src/hosts/request-host.ts";

const call = (id: string, progressToken?: unknown) => ({ id, progressToken });
const notice = (method: string, params?: object) =>
  ({ jsonrpc: "2.0", method, ...(params ? { params } : {}) }) as JSONRPCMessage;
const progress = (progressToken: unknown) =>
  notice("notifications/progress", { progressToken, progress: 1 });
const question = { jsonrpc: "2.0", id: 1, method: "elicitation/create" } as JSONRPCMessage;
const log = notice("notifications/message", { level: "info", data: "x" });
const changed = notice("notifications/tools/list_changed");

test.each([
  [
    "progress goes to the call with its token",
    progress("t"),
    [call("a", "t"), call("b")],
    true,
    "a",
  ],
  ["tokens 1 and '1' are two", progress(1), [call("a", "1"), call("b", 1)], true, "b"],
  [
    "progress of a call that is over goes to no other",
    progress("old"),
    [call("a")],
    true,
    undefined,
  ],
  ["the only call carries a question", question, [call("a")], true, "a"],
  ["and a line of the log", log, [call("a")], true, "a"],
  [
    "several calls leave it to the stream of the session",
    question,
    [call("a"), call("b")],
    true,
    undefined,
  ],
  ["without that stream the newest call carries it", question, [call("a"), call("b")], false, "b"],
  ["a change of the session goes out on its stream", changed, [call("a")], true, undefined],
  ["without a stream, on the newest call", changed, [call("a"), call("b")], false, "b"],
  ["without calls, on the stream", log, [], true, undefined],
])("%s", (_rule, message, calls, hasStream, expected) => {
  expect(relatedCall(message, calls, hasStream)?.id).toBe(expected);
});

test("messages that wait for a stream are bounded in number and bytes, and without progress", () => {
  const waiting = new EarlyMessages();
  waiting.push(progress("t"));
  waiting.push(log);
  waiting.push(notice("example/large", { text: "x".repeat(2 ** 20) }));
  for (let count = 0; count < 200; count++) waiting.push(question);
  expect(waiting.take()).toEqual([log, ...Array.from({ length: 99 }, () => question)]);
  expect(waiting.take()).toEqual([]);
});

describe("names of a call", () => {
  const request = {
    jsonrpc: "2.0" as const,
    id: "host",
    method: "tools/call",
    params: { name: "t", _meta: { progressToken: "token", other: 1 } },
  };
  const names = namesOf(request, 9);

  test("are its own at the server, and those of the host in what comes back", () => {
    expect(renamed(request, names)).toEqual({
      ...request,
      id: 9,
      params: { name: "t", _meta: { progressToken: 9, other: 1 } },
    });
    expect(forHost({ jsonrpc: "2.0", id: 9, result: { a: 1 } }, names)).toEqual({
      jsonrpc: "2.0",
      id: "host",
      result: { a: 1 },
    });
    expect(forHost(progress(9), names)).toEqual(progress("token"));
    const key = "io.modelcontextprotocol/subscriptionId";
    expect(forHost(notice("notifications/any", { _meta: { [key]: 9, b: 2 } }), names)).toEqual(
      notice("notifications/any", { _meta: { [key]: "host", b: 2 } }),
    );
    expect(forHost(log, names)).toEqual(log);
  });

  test("keep out what belongs to an earlier call", () => {
    expect(forHost({ jsonrpc: "2.0", id: 8, result: {} }, names)).toBeUndefined();
    expect(forHost({ jsonrpc: "2.0", id: "host", result: {} }, names)).toBeUndefined();
    expect(forHost(progress(8), names)).toBeUndefined();
    expect(forHost(progress("token"), names)).toBeUndefined();
  });

  test("a call without a token keeps its params", () => {
    const { params, ...rest } = request;
    const plain = { ...rest, params: { name: params.name } };
    expect(renamed(plain, namesOf(plain, 1)).params).toBe(plain.params);
  });
});

describe("events that a host does not read", () => {
  function events() {
    let controller!: ReadableStreamDefaultController<Uint8Array>;
    const body = new ReadableStream<Uint8Array>({ start: (given) => void (controller = given) });
    const headers = { "content-type": "text/event-stream" };
    let ended = 0;
    const paced = pacedEvents(new Response(body, { headers }), () => ended++);
    return { paced, controller, ends: () => ended };
  }
  const settled = (): Promise<void> => new Promise((resolve) => setTimeout(resolve, 10));
  const large = new Uint8Array(2 ** 20 + 1);

  test("hold their writer back until they are taken", async () => {
    const { paced, controller, ends } = events();
    controller.enqueue(new Uint8Array(100));
    await settled();
    expect(paced.ready()).toBeUndefined();
    controller.enqueue(large);
    await settled();
    let isReady = false;
    const ready = paced.ready()!.then(() => (isReady = true));
    const reader = paced.response.body!.getReader();
    expect((await reader.read()).value).toHaveLength(100);
    await settled();
    expect(isReady).toBe(false);
    expect((await reader.read()).value).toHaveLength(large.length);
    await ready;
    controller.close();
    expect((await reader.read()).done).toBe(true);
    expect(ends()).toBe(1);
  });

  test("hold nothing back after the host has gone", async () => {
    const { paced, controller, ends } = events();
    controller.enqueue(large);
    await settled();
    const ready = paced.ready();
    await paced.response.body!.cancel();
    await ready;
    expect(paced.ready()).toBeUndefined();
    expect(ends()).toBe(1);
  });

  test("a broken stream is not taken for one that ended", async () => {
    const { paced, controller } = events();
    controller.error(new Error("broken"));
    await expect(paced.response.text()).rejects.toThrow("broken");
  });

  test("a body without events is over at once", () => {
    let ended = 0;
    const response = Response.json({});
    expect(pacedEvents(response, () => ended++).response).toBe(response);
    expect(ended).toBe(1);
  });
});

describe("calls of a session that were cancelled or refused", () => {
  const request = (id: string) => ({ jsonrpc: "2.0", id, method: "tools/call", params: {} });
  const cancel = (requestId: string) => notice("notifications/cancelled", { requestId });
  const answer = (id: string) => ({ jsonrpc: "2.0", id, result: {} }) as JSONRPCMessage;

  async function session() {
    const host = new SessionHost("id");
    await host.start();
    const accept = "application/json, text/event-stream";
    const post = async (body: unknown): Promise<Response> =>
      host.handle(
        new Request("http://localhost/mcp", {
          method: "POST",
          headers: { accept, "content-type": "application/json", "mcp-session-id": "id" },
        }),
        body,
        () => {},
      );
    const clientInfo = { name: "host", version: "1" };
    const params = { protocolVersion: "2025-03-26", capabilities: {}, clientInfo };
    const opened = await post({ ...request("0"), method: "initialize", params });
    await host.send(answer("0"));
    await opened.text();
    return { host, post };
  }

  test("a call that was refused carries no question of the server", async () => {
    const { host, post } = await session();
    const refused = await host.handle(
      new Request("http://localhost/mcp", {
        method: "POST",
        headers: { accept: "text/html", "mcp-session-id": "id" },
      }),
      request("refused"),
      () => {},
    );
    expect(refused.status).toBe(406);
    await host.send(question);
    const response = await post(request("a"));
    await host.send(answer("a"));
    const messages = (await response.text()).match(/^data: .+$/gm);
    expect(messages).toEqual(
      [question, answer("a")].map((sent) => `data: ${JSON.stringify(sent)}`),
    );
  });

  test("are forgotten: their stream ends without a message", async () => {
    const { host, post } = await session();
    const response = await post(request("a"));
    await post(cancel("a"));
    expect(await response.text()).toBe("");
    await expect(host.send(answer("a"))).rejects.toThrow("No connection");
  });

  test.each([
    ["before", ["a", "b"]],
    ["after", ["b", "a"]],
  ])(
    "do not keep the stream of their batch open: cancelled %s the answer",
    async (_when, order) => {
      const { host, post } = await session();
      const response = await post([request("a"), request("b")]);
      for (const id of order) await (id === "a" ? post(cancel("a")) : host.send(answer("b")));
      const messages = (await response.text()).match(/^data: .+$/gm);
      expect(messages).toEqual([`data: ${JSON.stringify(answer("b"))}`]);
      await expect(host.send(answer("a"))).rejects.toThrow("No connection");
    },
  );
});
