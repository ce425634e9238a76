import { connect as connectSocket } from "node:net";
import { createSealer, createKeyRing, generateKey } from "@sluice/core";
import { createMemoryStateStore } from "@sluice/state/internal";
import { createTickets, createWebSocketHandler, listenWebSocket } from "@sluice/transport-ws";
import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, onTestFinished, test } from "vitest";
import { connect } from "./connect.ts";
import { deferred } from "./deferred.ts";
import { initialize, rawSocket, upgradeText } from "./raw-socket.ts";
import { bearer, principal, serve } from "./serve.ts";

const factory = (): McpServer => new McpServer({ name: "test", version: "1" });

describe("an upgrade", () => {
  test.each([
    ["addressed to another host", { host: "evil.example.com" }, 421],
    ["without a host", { host: undefined }, 421],
    ["with two hosts", { "x-more": "1\r\nHost: 127.0.0.1" }, 400],
    ["from a page of another origin", { origin: "https://evil.example.com" }, 403],
    ["from a page without an origin", { origin: "null" }, 403],
    ["without the subprotocol", { "sec-websocket-protocol": undefined }, 400],
    ["with another subprotocol", { "sec-websocket-protocol": "graphql-ws, mcp2" }, 400],
    ["of another version", { "sec-websocket-version": "99" }, 400],
    ["without a key", { "sec-websocket-key": undefined }, 400],
    ["with a ticket where there are none", { "sec-websocket-protocol": "mcp, mcp.ticket.v1" }, 401],
  ])("%s is refused before there is a connection", async (_name, headers, status) => {
    const { port, handler } = await serve();
    const refused = await rawSocket(port, { headers });
    expect(refused.status).toBe(status);
    expect(handler.connections).toBe(0);
    const served = await rawSocket(port, { headers: { origin: `http://127.0.0.1:${port}` } });
    expect([served.status, served.head]).toEqual([
      101,
      expect.stringMatching(/^sec-websocket-protocol: mcp$/im),
    ]);
  });

  test("is left to others at another path; its own server says 404", async () => {
    const server = await listenWebSocket(factory);
    onTestFinished(() => server.close({ deadlineMs: 0 }));
    for (const path of ["/", "/mcp/", "//", "/mcp/x", "http://[", "/%6dcp"])
      expect((await rawSocket(server.port, { path })).status).toBe(404);
    expect((await rawSocket(server.port, { path: "/mcp?a=b" })).status).toBe(101);
    expect((await fetch(`http://127.0.0.1:${server.port}/mcp`)).status).toBe(404);
  });

  test("has one spelling, even if the public URL ends in a slash", async () => {
    const url = "wss://x.example/a/mcp/";
    const { port } = await serve({ ws: { url, hosts: ["127.0.0.1"], anonymous: true } });
    expect((await rawSocket(port, { path: "/a/mcp" })).status).toBe(101);
    for (const wrong of [
      "wss://x.example/a//mcp",
      "wss://x.example/a/mcp//",
      "wss://x.example/a%2fmcp",
    ])
      expect(() => createWebSocketHandler(factory, { url: wrong, anonymous: true })).toThrow(
        "one spelling",
      );
  });

  test("is 431 with more than 64 header fields at its own server, as any request is", async () => {
    const server = await listenWebSocket(factory);
    onTestFinished(() => server.close({ deadlineMs: 0 }));
    const fields = Object.fromEntries(Array.from({ length: 64 }, (_, at) => [`x-${at}`, "1"]));
    expect((await rawSocket(server.port, { headers: fields })).status).toBe(431);
    const answer = await fetch(`http://127.0.0.1:${server.port}/mcp`, { headers: fields });
    expect(answer.status).toBe(431);
  });

  test("is refused in HTTP/1.0, which has none", async () => {
    const { port } = await serve();
    expect((await rawSocket(port, { version: "1.0" })).status).toBe(400);
  });

  test("with a page's origin that is listed is served", async () => {
    const origin = "https://app.example.com";
    const { port } = await serve({ ws: { origins: [origin] } });
    expect((await rawSocket(port, { headers: { origin } })).status).toBe(101);
  });

  test.each([
    ["no token", undefined, 401],
    ["a token that is not good", "Bearer wrong", 401],
    ["another scheme", "Basic YTpi", 401],
  ])("with %s is refused with a challenge", async (_name, authorization, status) => {
    const { port } = await serve({
      ws: { bearer: { ...bearer, resourceMetadataUrl: "https://a.example/meta" } },
    });
    const refused = await rawSocket(port, { headers: { authorization } });
    expect([refused.status, refused.head]).toEqual([
      status,
      expect.stringMatching(
        /^www-authenticate: bearer .*resource_metadata="https:\/\/a\.example\/meta"/im,
      ),
    ]);
  });

  test("is 403 without a scope, and 500, and reported, if the verifier breaks", async () => {
    const scoped = await serve({ ws: { bearer: { ...bearer, requiredScopes: ["files"] } } });
    const headers = { authorization: "Bearer ann" };
    expect((await rawSocket(scoped.port, { headers })).status).toBe(403);
    const verifier = { verifyAccessToken: () => Promise.reject(new Error("database is down")) };
    const broken = await serve({ ws: { bearer: { verifier } } });
    const refused = await rawSocket(broken.port, { headers });
    expect([refused.status, refused.body]).toEqual([500, expect.not.stringContaining("database")]);
    expect(broken.errors).toHaveLength(1);
  });

  test("beyond the room of the process is 503, beyond that of a principal 429; places come back", async () => {
    const { port, handler } = await serve({
      ws: { bearer, principal, connections: { perProcess: 3, perPrincipal: 2 } },
    });
    const open = (name: string) =>
      rawSocket(port, { headers: { authorization: `Bearer ${name}` } });
    const anns = [await open("ann"), await open("ann")];
    expect(anns.map(({ status }) => status)).toEqual([101, 101]);
    const third = await open("ann");
    expect([third.status, third.head]).toEqual([429, expect.stringMatching(/^retry-after: 1$/im)]);
    const bob = await open("bob");
    expect(bob.status).toBe(101);
    expect((await open("eve")).status).toBe(503);
    anns[0]!.socket.destroy();
    await expect.poll(() => handler.connections).toBe(2);
    expect((await open("ann")).status).toBe(101);
  });

  test("leaves no place taken when its client goes away while it is being verified", async () => {
    const verifying = deferred();
    const held = deferred();
    const verifier = {
      async verifyAccessToken(token: string) {
        verifying.resolve();
        await held.promise;
        return bearer.verifier.verifyAccessToken(token);
      },
    };
    const { port } = await serve({ ws: { connections: { perProcess: 1 }, bearer: { verifier } } });
    const headers = { authorization: "Bearer ann" };
    const gone = connectSocket(port, "127.0.0.1");
    gone.write(upgradeText(port, { headers }));
    await verifying.promise;
    expect((await rawSocket(port, { headers })).status).toBe(503);
    gone.destroy();
    held.resolve();
    await expect.poll(async () => (await rawSocket(port, { headers })).status).toBe(101);
  });

  test("takes nothing of its principal's share when its client goes away before it was verified", async () => {
    const held: (() => void)[] = [];
    const verifier = {
      async verifyAccessToken(token: string) {
        await new Promise<void>((resolve) => held.push(resolve));
        return bearer.verifier.verifyAccessToken(token);
      },
    };
    const ws = { bearer: { verifier }, connections: { perPrincipal: 1 } };
    const { port, http } = await serve({ ws });
    const headers = { authorization: "Bearer ann" };
    const ended = new Promise<void>((resolve) => {
      http.once("upgrade", (_request, socket) => socket.once("close", resolve));
    });
    const gone = connectSocket(port, "127.0.0.1");
    gone.write(upgradeText(port, { headers }));
    await expect.poll(() => held.length).toBe(1);
    gone.resetAndDestroy();
    await ended;
    held[0]!();
    const next = rawSocket(port, { headers });
    await expect.poll(() => held.length).toBe(2);
    held[1]!();
    expect((await next).status).toBe(101);
  });

  test.each([
    [{ url: "http://a.example/mcp" }],
    [{ url: "ws://a.example/mcp" }],
    [{ url: "wss://u:p@a.example/mcp" }],
    [{ url: "wss://a.example/mcp?token=1" }],
    [{ url: "wss://a.example/mcp" }],
    [{ url: "ws://localhost/mcp", connections: { perProcess: 0 } }],
    [{ url: "ws://localhost/mcp", messageRate: { perSecond: 0, burst: 1 } }],
    [{ url: "ws://localhost/mcp", messageRate: { perSecond: Infinity, burst: 1 } }],
  ])("handler of %j is refused at the start", (options) => {
    expect(() => createWebSocketHandler(factory, options)).toThrow(
      /url|bearer|connections.perProcess|Rate/,
    );
  });
});

describe("a ticket", () => {
  const keys = [generateKey()];
  const url = "ws://127.0.0.1/mcp";
  const authInfo = {
    token: "ann",
    clientId: "app",
    scopes: ["files"],
    expiresAt: Math.floor(Date.now() / 1_000) + 60,
    resource: new URL("https://a.example/mcp"),
    extra: { sub: "ann" },
  };

  test("opens one connection, whichever process issued it, as who it was issued to", async () => {
    const state = createMemoryStateStore();
    const issuing = createTickets({ keys, state, url });
    const { port } = await serve({
      ws: { tickets: createTickets({ keys, state, url }) },
      register: (mcp) =>
        void mcp.registerTool("who", {}, (ctx) => ({
          content: [
            {
              type: "text",
              text: JSON.stringify([
                ctx.http?.authInfo,
                ctx.http?.req?.headers.get("sec-websocket-protocol"),
              ]),
            },
          ],
        })),
    });
    const { ticket, expiresAt } = await issuing.issue(authInfo);
    expect(expiresAt - Date.now()).toBeLessThanOrEqual(30_000);
    const headers = { "sec-websocket-protocol": `mcp, mcp.ticket.${ticket}` };
    const socket = await rawSocket(port, { headers });
    expect([socket.status, socket.head]).toEqual([101, expect.not.stringContaining(ticket)]);
    socket.text(initialize);
    await socket.json();
    socket.text({ jsonrpc: "2.0", id: 1, method: "tools/call", params: { name: "who" } });
    const { result } = (await socket.json()) as { result: { content: [{ text: string }] } };
    expect(JSON.parse(result.content[0].text)).toEqual([
      { ...authInfo, resource: authInfo.resource.href },
      null,
    ]);
    expect((await rawSocket(port, { headers })).status).toBe(401);
  });

  test("counts for its address if forged: beyond the limit it is 429, and one that works opens", async () => {
    const tickets = createTickets({ keys, state: createMemoryStateStore(), url });
    const { port } = await serve({ ws: { tickets } });
    const come = async (ticket: string): Promise<number | undefined> => {
      const headers = { "sec-websocket-protocol": `mcp, mcp.ticket.${ticket}` };
      return (await rawSocket(port, { headers })).status;
    };
    for (let n = 0; n < 20; n++) expect(await come(`forged-${n}`)).toBe(401);
    expect(await come("forged")).toBe(429);
    expect(await come((await tickets.issue(authInfo)).ticket)).toBe(101);
    const open = await serve({ ws: { tickets, failedTickets: false } });
    for (let n = 0; n < 25; n++) {
      const headers = { "sec-websocket-protocol": `mcp, mcp.ticket.${n}` };
      expect((await rawSocket(open.port, { headers })).status).toBe(401);
    }
  });

  test("is taken once of a hundred that come at once", async () => {
    const tickets = createTickets({ keys, state: createMemoryStateStore(), url });
    const { ticket } = await tickets.issue(authInfo);
    const outcomes = await Promise.allSettled(
      Array.from({ length: 100 }, () => tickets.take(ticket)),
    );
    expect(outcomes.filter(({ status }) => status === "fulfilled")).toHaveLength(1);
    expect(await tickets.take(ticket).catch((error: unknown) => error)).toMatchObject({
      code: "unauthenticated",
    });
  });

  test("is refused if it is of another endpoint, other keys or another purpose, or has expired", async () => {
    const state = createMemoryStateStore();
    const tickets = createTickets({ keys, state, url });
    const refused = { code: "unauthenticated" };
    const { ticket: elsewhere } = await createTickets({ keys, state, url: `${url}2` }).issue(
      authInfo,
    );
    const { ticket: foreign } = await createTickets({ keys: [generateKey()], state, url }).issue(
      authInfo,
    );
    const { token: download } = createSealer({ keys: createKeyRing(keys), audience: url }).seal(
      "download",
      { key: "websocket" },
    );
    const { ticket } = await tickets.issue(authInfo);
    for (const wrong of [
      elsewhere,
      foreign,
      download,
      "",
      "v1",
      `${ticket}a`,
      ticket.toUpperCase(),
    ])
      await expect(tickets.take(wrong)).rejects.toMatchObject(refused);
    expect((await tickets.take(ticket)).token).toBe("ann");
    await expect(
      createTickets({ keys, state, url, ttlMs: 60_001 }).issue(authInfo),
    ).rejects.toThrow(RangeError);
  });

  test("and its record tell no access token: neither opens the other", async () => {
    const records: Uint8Array[] = [];
    const state = createMemoryStateStore();
    const spying = {
      ...state,
      put: (...args: Parameters<typeof state.put>) => {
        records.push(args[1]);
        return state.put(...args);
      },
    };
    const secret = "a-very-secret-access-token";
    const { ticket } = await createTickets({ keys, state: spying, url }).issue({
      ...authInfo,
      token: secret,
    });
    const stored = Buffer.from(records[0]!).toString("latin1");
    for (const text of [ticket, stored])
      for (const encoding of ["utf8", "base64", "base64url", "hex"] as const)
        expect(text).not.toContain(Buffer.from(secret).toString(encoding).slice(0, 20));
  });

  test("comes from the client's own callback, for every connection a new one", async () => {
    const { createWebSocketTransport } = await import("@sluice/transport-ws/client");
    expect(() => createWebSocketTransport("ws://a.example/mcp", { token: "t" })).toThrow(
      "in the clear",
    );
    const { url: served } = await serve({ ws: { bearer } });
    let asked = 0;
    const token = (): string => `ann${(asked += 1)}`;
    await connect("SDK v2, legacy", served, { token });
    await connect("SDK v2, legacy", served, { token });
    expect(asked).toBe(2);
  });
});
