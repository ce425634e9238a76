import type { OutgoingHttpHeaders } from "node:http";
import type { Duplex } from "node:stream";
import { Client } from "@modelcontextprotocol/client";
import { isConnectionLost } from "@sluice/transport-ws/client";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { streamResource } from "@sluice/client";
import { describe, expect, onTestFinished, test } from "vitest";
import type { WebSocket } from "ws";
import { deferred } from "./deferred.ts";
import { connect, sdkNames } from "./connect.ts";
import { answer, parse, rawServer, type Message } from "./raw-server.ts";
import { bytes, serve, uri } from "./serve.ts";

const quick = { baseMs: 5, maxMs: 20 };

describe.each(sdkNames)("%s, when the connection breaks", (sdk) => {
  test("rejects pending requests at once and by name, never sends them again, and continues", async () => {
    let calls = 0;
    const running = deferred();
    const { url, http, handler } = await serve({
      register: (mcp) =>
        void mcp.registerTool("hang", {}, async () => {
          calls += 1;
          running.resolve();
          await new Promise(() => {});
          return { content: [] };
        }),
    });
    const upgraded: Duplex[] = [];
    http.on("upgrade", (_request, socket) => upgraded.push(socket));
    const again = deferred();
    const { client } = await connect(sdk, url, { reconnect: quick, onReconnect: again.resolve });
    const pending = client.callTool({ name: "hang" }).catch((error: unknown) => error);
    await running.promise;
    upgraded[0]!.destroy();
    const error = await pending;
    expect(isConnectionLost(error)).toBe(true);
    // asked for while there is no connection: sent on the next one
    expect((await client.listResources()).resources).toHaveLength(1);
    await again.promise;
    expect([calls, handler.connections]).toEqual([1, 1]);
    const stream = await streamResource(client, uri);
    expect(Buffer.from(await new Response(stream.body).arrayBuffer()).equals(bytes)).toBe(true);
  });
});

type Refuse = (ok: boolean, status: number, message: string, headers: OutgoingHttpHeaders) => void;

describe("the transport", () => {
  test("repeats the legacy handshake on a new connection, and nothing else", async () => {
    const heard: Message[][] = [];
    const { url, sockets: open } = await rawServer((socket, number) => {
      heard.push([]);
      socket.on("message", (data) => {
        heard[number - 1]!.push(parse(data));
        answer(socket, parse(data));
      });
    });
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const lost = client.callTool({ name: "x" }).catch((error: unknown) => error);
    await expect.poll(() => heard[0]!.length).toBe(3);
    open[0]!.terminate();
    expect(isConnectionLost(await lost)).toBe(true);
    await client.ping();
    expect(heard[1]!.map(({ method }) => method)).toEqual([
      "initialize",
      "notifications/initialized",
      "ping",
    ]);
    expect(heard[1]![0]!.params).toEqual(heard[0]![0]!.params);
  });

  test("closes when the server speaks another revision after it came back", async () => {
    const { url, sockets: open } = await rawServer((socket, number) =>
      socket.on("message", (data) => {
        const { id, method } = parse(data);
        if (number === 1 || method !== "initialize") return answer(socket, parse(data));
        const result = {
          protocolVersion: "2025-03-26",
          capabilities: {},
          serverInfo: { name: "", version: "" },
        };
        socket.send(JSON.stringify({ jsonrpc: "2.0", id, result }));
      }),
    );
    const { client, transport } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const closed = deferred();
    Object.assign(client, { onclose: closed.resolve });
    open[0]!.terminate();
    await closed.promise;
    await expect(transport.send({ jsonrpc: "2.0", method: "x" })).rejects.toMatchObject({
      code: "unavailable",
    });
  });

  test.each([1001, 1006, 1008, 1009, 1011, 1012, 1013])("comes back after %i", async (code) => {
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => answer(socket, parse(data))),
    );
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    if (code === 1006) open[0]!.terminate();
    else open[0]!.close(code, "bye");
    await expect.poll(() => open.length).toBe(2);
    await client.ping();
  });

  test.each([1000, 1002, 1003, 1007])("stays away after %i", async (code) => {
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => answer(socket, parse(data))),
    );
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const closed = deferred();
    Object.assign(client, { onclose: closed.resolve });
    const pending = client.callTool({ name: "x" }).catch((error: unknown) => error);
    open[0]!.close(code);
    await closed.promise;
    expect(await pending).toBeInstanceOf(Error);
    expect(open).toHaveLength(1);
  });

  test.each([
    ["a binary frame", Buffer.from([1]), 1003],
    ["text that is not JSON", "{", 1007],
    ["a batch", "[]", 1008],
  ])("closes on %s of the server, with its code and an error", async (_name, sent, code) => {
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => answer(socket, parse(data))),
    );
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const errors: unknown[] = [];
    Object.assign(client, { onerror: (error: unknown) => errors.push(error) });
    const closed = new Promise((resolve) => open[0]!.once("close", resolve));
    open[0]!.send(sent);
    expect(await closed).toBe(code);
    expect(errors).toEqual([expect.objectContaining({ code: "protocol" })]);
    expect(open).toHaveLength(1);
  });

  test("gives up after its tries, tells why, and does not ask a server that refused it", async () => {
    const {
      url,
      sockets: open,
      server,
    } = await rawServer((socket) => socket.on("message", (data) => answer(socket, parse(data))));
    let refusals = 0;
    const { client } = await connect("SDK v2, legacy", url, {
      reconnect: { ...quick, maxAttempts: 3 },
    });
    const errors: unknown[] = [];
    Object.assign(client, { onerror: (error: unknown) => errors.push(error) });
    const closed = deferred();
    Object.assign(client, { onclose: closed.resolve });
    server.options.verifyClient = (_info, callback: (ok: boolean, status: number) => void) => {
      refusals += 1;
      callback(false, 503);
    };
    open[0]!.terminate();
    await closed.promise;
    expect(refusals).toBe(3);
    expect(errors).toEqual([expect.objectContaining({ code: "unavailable" })]);
  });

  test("gives up at once where the server asks for more than a minute of patience", async () => {
    const {
      url,
      sockets: open,
      server,
    } = await rawServer((socket) => socket.on("message", (data) => answer(socket, parse(data))));
    let refusals = 0;
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const errors: unknown[] = [];
    const closed = deferred();
    const onerror = (error: unknown): void => void errors.push(error);
    Object.assign(client, { onerror, onclose: closed.resolve });
    server.options.verifyClient = (_info, callback: Refuse) => {
      refusals += 1;
      callback(false, 503, "", { "retry-after": "9999999999" });
    };
    open[0]!.terminate();
    await closed.promise;
    expect(refusals).toBe(1);
    expect(errors).toEqual([
      expect.objectContaining({ code: "unavailable", retryAfterMs: 9_999_999_999_000 }),
    ]);
  });

  test("does not try again where its credentials were refused", async () => {
    const {
      url,
      sockets: open,
      server,
    } = await rawServer((socket) => socket.on("message", (data) => answer(socket, parse(data))));
    let refusals = 0;
    const { client } = await connect("SDK v2, legacy", url, { reconnect: quick });
    const closed = deferred();
    Object.assign(client, { onclose: closed.resolve });
    server.options.verifyClient = (_info, callback: (ok: boolean, status: number) => void) => {
      refusals += 1;
      callback(false, 401);
    };
    open[0]!.terminate();
    await closed.promise;
    expect(refusals).toBe(1);
  });

  test("does not answer on a new connection what was asked on the old one", async () => {
    const heard: Message[] = [];
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => {
        heard.push(parse(data));
        answer(socket, parse(data));
      }),
    );
    const reply = deferred();
    const transport = createWebSocketTransport(url, { reconnect: quick });
    const client = new Client({ name: "t", version: "1" }, { capabilities: { roots: {} } });
    const asked = new Promise<void>((resolve) => {
      client.setRequestHandler("roots/list", async () => {
        resolve();
        await reply.promise;
        return { roots: [] };
      });
    });
    await client.connect(transport);
    onTestFinished(() => client.close());
    open[0]!.send(JSON.stringify({ jsonrpc: "2.0", id: "theirs", method: "roots/list" }));
    await asked;
    open[0]!.terminate();
    await expect.poll(() => open.length).toBe(2);
    reply.resolve();
    await client.ping();
    expect(heard.filter(({ id }) => id === "theirs")).toEqual([]);
  });

  test("refuses more messages than it holds while there is no connection", async () => {
    const { url, sockets: open } = await rawServer((socket) =>
      socket.on("message", (data) => answer(socket, parse(data))),
    );
    const reconnect = { baseMs: 3_600_000, maxMs: 3_600_000 };
    const { client, transport } = await connect("SDK v2, legacy", url, { reconnect });
    const lost = client.callTool({ name: "x" }).catch((error: unknown) => error);
    open[0]!.terminate();
    expect(isConnectionLost(await lost)).toBe(true);
    const message = { jsonrpc: "2.0", method: "notifications/x" } as const;
    const sent = Array.from({ length: 300 }, () =>
      transport.send(message).catch((error: { code: string }) => error.code),
    );
    await client.close();
    const outcomes = await Promise.all(sent);
    expect(outcomes).toEqual([
      ...Array.from({ length: 256 }, () => "unavailable"),
      ...Array.from({ length: 44 }, () => "throttled"),
    ]);
  });
});

const legacy = (socket: WebSocket): void =>
  void socket.on("message", (data) => answer(socket, parse(data)));

const note = (number: number) =>
  ({ jsonrpc: "2.0", method: "notifications/x", params: { number } }) as const;

describe("a connection that is made anew", () => {
  test("carries first what waited for it, in order, then what came after", async () => {
    const heard: unknown[] = [];
    const { url, sockets: open } = await rawServer((socket) => {
      legacy(socket);
      socket.on("message", (data) => heard.push(parse(data).params?.["number"]));
    });
    const again = deferred();
    const { client, transport } = await connect("SDK v2, legacy", url, {
      reconnect: quick,
      onReconnect: () => void transport.send(note(4)).then(again.resolve),
    });
    const lost = client.callTool({ name: "x" }).catch((error: unknown) => error);
    open[0]!.terminate();
    expect(isConnectionLost(await lost)).toBe(true);
    const sent = [1, 2, 3].map((number) => transport.send(note(number)));
    await Promise.all([...sent, again.promise]);
    await client.ping();
    expect(heard.filter((number) => number !== undefined)).toEqual([1, 2, 3, 4]);
  });

  test("and lasts may break as often as it will: only tries in a row count", async () => {
    const { url, sockets: open } = await rawServer(legacy);
    let connected = deferred();
    await connect("SDK v2, legacy", url, {
      reconnect: { baseMs: 1, maxMs: 1, maxAttempts: 2 },
      onReconnect: () => connected.resolve(),
    });
    for (let round = 1; round <= 5; round += 1) {
      const { promise } = (connected = deferred());
      const start = performance.now();
      await expect.poll(() => performance.now() - start).toBeGreaterThan(2);
      open[round - 1]!.terminate();
      await promise;
    }
    expect(open).toHaveLength(6);
  });

  test("is dropped when the transport was closed by then", async () => {
    const late = deferred();
    const { url, sockets: open } = await rawServer((socket, number) =>
      socket.on("message", (data) => {
        answer(socket, parse(data));
        // in one packet with the answer that the new connection waits for
        if (number === 2)
          socket.send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/x" }));
        socket.on("close", late.resolve);
      }),
    );
    let reconnects = 0;
    const { client, transport } = await connect("SDK v2, legacy", url, {
      reconnect: quick,
      onReconnect: () => (reconnects += 1),
    });
    const receive = transport.onmessage!;
    const onmessage: typeof receive = (message) => {
      if ("method" in message && message.method === "notifications/x") void client.close();
      receive(message);
    };
    Object.assign(transport, { onmessage });
    open[0]!.terminate();
    await expect.poll(() => open.length).toBe(2);
    await expect.poll(() => open[1]!.readyState).toBe(3);
    expect(reconnects).toBe(0);
  });
});

test("messages of a connection after it was closed are not looked at", async () => {
  const { url, sockets: open } = await rawServer((socket) =>
    socket.on("message", (data) => answer(socket, parse(data))),
  );
  const { client, transport } = await connect("SDK v2, legacy", url, { reconnect: quick });
  const errors: unknown[] = [];
  Object.assign(client, { onerror: (error: unknown) => errors.push(error) });
  const messages: unknown[] = [];
  Object.assign(transport, { onmessage: (message: unknown) => messages.push(message) });
  const ended = new Promise((resolve) => open[0]!.once("close", resolve));
  const { _socket: wire } = open[0] as unknown as { _socket: Duplex };
  wire.cork();
  open[0]!.send("nonsense");
  open[0]!.send("more of it");
  open[0]!.send(JSON.stringify({ jsonrpc: "2.0", method: "notifications/x" }));
  wire.uncork();
  await ended;
  expect(errors).toHaveLength(1);
  expect(messages).toEqual([]);
});

/** Sockets and timers that keep this process busy. */
const resources = (): number => process.getActiveResourcesInfo().length;

test("clients whose server vanishes are left with no pending request, timer or socket", async () => {
  const { url, sockets: open } = await rawServer((socket) =>
    socket.on("message", (data) => answer(socket, parse(data))),
  );
  const before = resources();
  const total = process.env["SLUICE_DEEP"] ? 1_000 : 50;
  const outcomes: Promise<unknown>[] = [];
  for (let count = 0; count < total; count += 1) {
    const client = new Client({ name: "t", version: "1" });
    await client.connect(createWebSocketTransport(url, { reconnect: false }));
    outcomes.push(client.callTool({ name: "x" }).catch((error: unknown) => error));
  }
  for (const socket of open) socket.terminate();
  for (const outcome of await Promise.all(outcomes)) expect(outcome).toBeInstanceOf(Error);
  await expect.poll(resources, { timeout: 10_000 }).toBeLessThanOrEqual(before);
});
