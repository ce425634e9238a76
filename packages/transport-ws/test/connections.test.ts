import { McpServer, OAuthError, OAuthErrorCode } from "@modelcontextprotocol/server";
import { listenWebSocket } from "@sluice/transport-ws";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { WebSocket } from "ws";
import { deferred } from "./deferred.ts";
import { frame, initialize, opcodes, ping, rawSocket, type RawSocket } from "./raw-socket.ts";
import { serve } from "./serve.ts";

async function opened(port: number): Promise<RawSocket> {
  const socket = await rawSocket(port);
  socket.text(initialize);
  await socket.json();
  return socket;
}

/** A tool that answers when the test says so. */
function heldTool(): {
  register: (mcp: McpServer) => void;
  running: Promise<void>;
  finish: () => void;
} {
  const held = deferred();
  const started = deferred();
  const register = (mcp: McpServer): void =>
    void mcp.registerTool("wait", {}, async () => {
      started.resolve();
      await held.promise;
      return { content: [] };
    });
  return { register, running: started.promise, finish: held.resolve };
}

const wait = { jsonrpc: "2.0", id: "wait", method: "tools/call", params: { name: "wait" } };

describe("liveness", () => {
  test("a peer that answers pings stays, one that says nothing is gone after two", async () => {
    const { port, handler } = await serve({ ws: { pingIntervalMs: 250 } });
    const silent = await rawSocket(port);
    const alive = new WebSocket(`ws://127.0.0.1:${port}/mcp`, "mcp");
    onTestFinished(() => alive.terminate());
    let pings = 0;
    const heard = new Promise<void>((resolve) => {
      alive.on("ping", () => {
        if ((pings += 1) === 3) resolve();
      });
    });
    expect((await silent.next()).opcode).toBe(opcodes.ping);
    expect(await silent.closed()).toBe(1006);
    await heard;
    expect(handler.connections).toBe(1);
  });
});

describe("back-pressure", () => {
  test("a peer that takes nothing is closed with 1013 when its queue is full, others are not", async () => {
    const big = "x".repeat(1_000_000);
    const { port, errors } = await serve({
      ws: { maxBufferedBytes: 2_000_000, messageRate: { perSecond: 1_000, burst: 1_000 } },
      register: (mcp) =>
        void mcp.registerTool("big", {}, () => ({ content: [{ type: "text", text: big }] })),
    });
    const closes = vi.spyOn(WebSocket.prototype, "close");
    onTestFinished(() => closes.mockRestore());
    const slow = await opened(port);
    const other = await opened(port);
    slow.socket.pause();
    const call = { jsonrpc: "2.0", method: "tools/call", params: { name: "big" } };
    for (let id = 0; id < 30; id += 1) slow.text({ ...call, id });
    await expect.poll(() => closes.mock.calls.some(([code]) => code === 1013)).toBe(true);
    slow.socket.resume();
    expect(await slow.closed()).toBe(1013);
    other.text(ping);
    expect(await other.json()).toMatchObject({ id: "ping" });
    expect(errors).toEqual([]);
  });

  test("messages that come faster than the rate wait; none is lost and nobody is cut off", async () => {
    const { port } = await serve({ ws: { messageRate: { perSecond: 200, burst: 3 } } });
    const socket = await opened(port);
    const ids = Array.from({ length: 40 }, (_, id) => id);
    const paused = vi.spyOn(WebSocket.prototype, "pause");
    onTestFinished(() => paused.mockRestore());
    for (const id of ids) {
      socket.text({ ...ping, id });
      await new Promise((resolve) => setImmediate(resolve));
    }
    const answered: unknown[] = [];
    for (const _ of ids) answered.push((await socket.json())["id"]);
    expect(answered).toEqual(ids);
    expect(paused).toHaveBeenCalled();
  });

  test("pings are counted like messages: their answers cannot pile up", async () => {
    const { port, handler } = await serve({ ws: { messageRate: { perSecond: 200, burst: 3 } } });
    const socket = await opened(port);
    const paused = vi.spyOn(WebSocket.prototype, "pause");
    onTestFinished(() => paused.mockRestore());
    for (let sent = 0; sent < 20; sent += 1) socket.write(frame(opcodes.ping, `${sent}`));
    for (let got = 0; got < 20; got += 1) {
      const { opcode, payload } = await socket.next();
      expect([opcode, payload.toString()]).toEqual([opcodes.pong, `${got}`]);
    }
    expect(paused).toHaveBeenCalled();
    expect(handler.connections).toBe(1);
  });
});

describe("closing", () => {
  test.each([
    [{}, 1001],
    [{ restart: true }, 1012],
  ])(
    "%j closes idle connections at once and busy ones after their answer",
    async (options, code) => {
      const { register, running, finish } = heldTool();
      const { port, handler } = await serve({ register });
      const idle = await opened(port);
      const busy = await opened(port);
      busy.text(wait);
      await running;
      const closed = handler.close(options);
      expect(await idle.closed()).toBe(code);
      idle.socket.destroy();
      expect((await rawSocket(port)).status).toBe(503);
      finish();
      expect(await busy.json()).toMatchObject({ id: "wait", result: {} });
      expect(await busy.closed()).toBe(code);
      busy.socket.destroy();
      await closed;
      expect(handler.connections).toBe(0);
    },
  );

  test("remaining connections are closed at the deadline, or when its signal says so", async () => {
    const signal = AbortSignal.abort();
    for (const options of [{ deadlineMs: 20 }, { signal }]) {
      const { register, running } = heldTool();
      const { port, handler } = await serve({ register });
      const busy = await opened(port);
      busy.text(wait);
      await running;
      await handler.close(options);
      expect(handler.connections).toBe(0);
      expect(await busy.closed()).toBe(1001);
    }
  });

  test("a connection that is still being verified is refused at once", async () => {
    const verifying = deferred();
    const verifier = {
      verifyAccessToken() {
        verifying.resolve();
        return new Promise<never>(() => {});
      },
    };
    const { port, handler, errors } = await serve({ ws: { bearer: { verifier } } });
    const arriving = rawSocket(port, { headers: { authorization: "Bearer ann" } });
    await verifying.promise;
    await handler.close();
    expect((await arriving).status).toBe(503);
    expect(errors).toEqual([]);
  });

  test("a second close with a shorter deadline makes haste, and both calls resolve", async () => {
    const { register, running } = heldTool();
    const { port, handler } = await serve({ register });
    const busy = await opened(port);
    busy.text(wait);
    await running;
    const patient = handler.close({ deadlineMs: Infinity });
    await Promise.all([handler.close({ deadlineMs: 0 }), patient]);
    expect(await busy.closed()).toBe(1001);
  });

  test("a cancelled request is not waited for", async () => {
    const { register, running } = heldTool();
    const { port, handler } = await serve({ register });
    const socket = await opened(port);
    socket.text(wait);
    await running;
    const params = { requestId: "wait" };
    socket.text({ jsonrpc: "2.0", method: "notifications/cancelled", params });
    socket.text(ping);
    await socket.json();
    const closed = handler.close();
    expect(await socket.closed()).toBe(1001);
    socket.socket.destroy();
    await closed;
  });

  test("its own server gives its port back", async () => {
    const server = await listenWebSocket(() => new McpServer({ name: "test", version: "1" }));
    const socket = await rawSocket(server.port);
    const closed = server.close();
    expect(await socket.closed()).toBe(1001);
    socket.write(frame(opcodes.close, Buffer.from([0x03, 0xe9])));
    await closed;
    const next = await listenWebSocket(() => new McpServer({ name: "test", version: "1" }), {
      port: server.port,
    });
    expect(next.port).toBe(server.port);
    await next.close();
  });
});

describe("a connection ends", () => {
  test("with 1008 when its access token expires, not sooner", { tags: "slow" }, async () => {
    const expiresAt = Math.floor(Date.now() / 1_000) + 2;
    const verifier = {
      async verifyAccessToken(token: string) {
        if (token !== "ann") throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown");
        return { token, clientId: "app", scopes: [], expiresAt };
      },
    };
    const { port } = await serve({ ws: { bearer: { verifier } } });
    const socket = await rawSocket(port, { headers: { authorization: "Bearer ann" } });
    socket.text(initialize);
    expect(await socket.json()).toMatchObject({ id: "open" });
    expect(await socket.closed()).toBe(1008);
    expect(Date.now()).toBeGreaterThanOrEqual(expiresAt * 1_000 - 50);
  });

  test("with 1011 after an error, when no server could be made for it", async () => {
    const { port, errors } = await serve({
      create: () => Promise.reject(new Error("no database")),
    });
    const socket = await rawSocket(port);
    socket.text(initialize);
    expect(await socket.json()).toMatchObject({ id: "open", error: { code: -32603 } });
    expect(await socket.closed()).toBe(1011);
    expect(errors).toEqual([expect.objectContaining({ message: "no database" })]);
  });
});
