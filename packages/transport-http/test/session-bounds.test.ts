import { randomUUID } from "node:crypto";
import {
  McpServer,
  WebStandardStreamableHTTPServerTransport,
  type McpHandlerRequestOptions,
} from "@modelcontextprotocol/server";
import { createSluice, type RateLimiter, type Sluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler, type SessionsOptions } from "@sluice/transport-http";
import { createSessions, withSluice } from "@sluice/transport-http/internal";
import { afterEach, beforeEach, describe, expect, onTestFinished, test, vi } from "vitest";

const endpoint = "http://127.0.0.1:9/mcp";
const idleMs = 1_800_000;

type Make = (create: () => McpServer, sluice: Sluice, options?: SessionsOptions) => McpFetchHandler;

/** The recipe as it was: a table of the SDK's transports. */
const byHand: Make = (create) => {
  const transports = new Map<string, WebStandardStreamableHTTPServerTransport>();
  return {
    async fetch(request, told) {
      const id = request.headers.get("mcp-session-id");
      const known = transports.get(id ?? "");
      if (known) return known.handleRequest(request, told);
      if (id !== null) return Response.json({ error: "no such session" }, { status: 404 });
      const transport = new WebStandardStreamableHTTPServerTransport({
        sessionIdGenerator: randomUUID,
        onsessioninitialized: (opened) => void transports.set(opened, transport),
        onsessionclosed: (closed) => void transports.delete(closed),
      });
      await create().connect(transport);
      return transport.handleRequest(request, told);
    },
  };
};

/** A host with sessions; a caller is the name that its verified token has. */
function createHost(
  make: Make = createSessions,
  { sessions, ...options }: Partial<SluiceOptions> & { readonly sessions?: SessionsOptions } = {},
) {
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": "0123456789" }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    principal: ({ authInfo }) =>
      authInfo && { issuer: "test", subject: authInfo.token, clientId: "test" },
    anonymous: true,
    delivery: "downloadUrl",
    onWarning: () => {},
    ...options,
  } as SluiceOptions);
  const servers = { made: 0, closed: 0 };
  const heard: unknown[] = [];
  const create = (): McpServer => {
    servers.made += 1;
    const mcp = new McpServer({ name: "s", version: "1" });
    Object.assign(mcp.server, { onclose: () => void (servers.closed += 1) });
    mcp.registerTool("ask", {}, async (ctx) => {
      const requestedSchema = { type: "object" as const, properties: {} };
      const question = { message: "well?", requestedSchema };
      const { content } = await ctx.mcpReq.elicitInput(question, {
        relatedRequestId: ctx.mcpReq.id,
      });
      heard.push(content);
      return { content: [{ type: "text", text: "asked" }] };
    });
    return sluice.attach(mcp);
  };
  const mcp = make(create, sluice, sessions);
  onTestFinished(async () => {
    await (mcp as { close?(): Promise<void> }).close?.();
  });
  const handler = withSluice(mcp, sluice);

  /** A request of `who`; of no principal when that is undefined. */
  function send(who: string | undefined, method: string, headers = {}, message?: object) {
    const init = {
      method,
      headers: { accept: "application/json, text/event-stream", ...headers },
      ...(message && { body: JSON.stringify({ jsonrpc: "2.0", ...message }) }),
    };
    const request = new Request(endpoint, init);
    if (message) request.headers.set("content-type", "application/json");
    const told: McpHandlerRequestOptions = {};
    if (who !== undefined) told.authInfo = { token: who, clientId: "test", scopes: [] };
    return handler.fetch(request, told);
  }
  const initialize = (who?: string, headers = {}) =>
    send(who, "POST", headers, {
      id: 0,
      method: "initialize",
      params: {
        protocolVersion: "2025-11-25",
        clientInfo: { name: "c", version: "1" },
        capabilities: { elicitation: { form: {} }, resourceStreaming: {} },
      },
    });
  /** Opens a session; gives its header. */
  async function open(who?: string): Promise<{ "mcp-session-id": string }> {
    const response = await initialize(who);
    await response.text();
    expect(response.status).toBe(200);
    return { "mcp-session-id": response.headers.get("mcp-session-id")! };
  }
  /** The status of a request in a session. */
  async function ping(who: string | undefined, session: object): Promise<number> {
    const response = await send(who, "POST", session, { id: 1, method: "ping" });
    await response.text();
    return response.status;
  }
  return { sluice, mcp, handler, servers, heard, send, initialize, open, ping };
}

beforeEach(() => {
  vi.useFakeTimers({ toFake: ["Date", "setInterval", "clearInterval"] });
});
afterEach(() => {
  vi.useRealTimers();
});

/** Holds a rule against `createSessions`, and against the recipe by hand, which breaks it. */
async function catches(rule: (make: Make) => Promise<void>): Promise<void> {
  await expect(rule(createSessions)).resolves.toBeUndefined();
  await expect(rule(byHand)).rejects.toThrow(/expected|was answered/);
}

describe("sessions, which the recipe by hand does not keep", () => {
  test("a session does not exist for another principal, or for none", async () => {
    await catches(async (make) => {
      const { open, ping, send } = createHost(make);
      const session = await open("ann");
      for (const foreign of ["mallory", undefined])
        for (const method of ["POST", "GET", "DELETE"]) {
          const message = method === "POST" ? { id: 1, method: "ping" } : undefined;
          const answers = await Promise.all(
            [session, { "mcp-session-id": randomUUID() }].map(async (headers) => {
              const response = await send(foreign, method, headers, message);
              if (response.headers.get("content-type") === "text/event-stream")
                throw new Error(`${method} was answered`);
              return `${response.status} ${await response.text()}`;
            }),
          );
          expect(answers[0]).toMatch(/^404 /);
          expect(answers[0]).toBe(answers[1]);
        }
      expect(await ping("ann", session)).toBe(200);
    });
  });

  test("another principal cannot answer the questions of a session", async () => {
    await catches(async (make) => {
      const { open, send, heard } = createHost(make);
      const session = await open("ann");
      await send("ann", "POST", session, { method: "notifications/initialized" });
      const call = await send("ann", "POST", session, {
        id: 1,
        method: "tools/call",
        params: { name: "ask" },
      });
      const reader = call.body!.pipeThrough(new TextDecoderStream()).getReader();
      let text = "";
      while (!text.includes("elicitation/create")) text += (await reader.read()).value;
      const { id } = JSON.parse(/^data: (\{.*\})$/m.exec(text)![1]!);
      const answerAs = async (who: string) => {
        const result = { action: "accept", content: { from: who } };
        const response = await send(who, "POST", session, { id, result });
        return response.status;
      };
      expect(await answerAs("mallory")).toBe(404);
      expect(await answerAs("ann")).toBe(202);
      while (!(await reader.read()).done);
      expect(heard).toEqual([{ from: "ann" }]);
    });
  });

  test("a session without requests and streams ends after its idle time, and its URLs with it", async () => {
    await catches(async (make) => {
      const { sluice, servers, open, ping, send } = createHost(make);
      const session = await open("ann");
      const response = await send("ann", "POST", session, {
        id: 1,
        method: "resources/stream",
        params: { uri: "files://demo/a.bin" },
      });
      const { result } = (await response.json()) as { result: { downloadUrl: string } };
      vi.advanceTimersByTime(idleMs - 1);
      expect(await ping("ann", session)).toBe(200);
      vi.advanceTimersByTime(idleMs);
      expect(await ping("ann", session)).toBe(404);
      expect(result.downloadUrl).toContain(endpoint);
      expect(await sluice.host.isSessionOver(session["mcp-session-id"])).toBe(true);
      expect(servers.closed).toBe(1);
    });
  });

  test("an idle session ends without a request", async () => {
    await catches(async (make) => {
      const { servers, open } = createHost(make);
      await open("ann");
      vi.advanceTimersByTime(idleMs + 60_000);
      await vi.waitFor(() => expect(servers.closed).toBe(1), { timeout: 500 });
    });
  });

  test("a new session of a principal at its bound ends its longest idle one, and no other's", async () => {
    await catches(async (make) => {
      const { servers, open, ping } = createHost(make);
      const bob = await open("bob");
      const sessions = [];
      for (let n = 0; n < 33; n++) {
        sessions.push(await open("ann"));
        // the first is used again before the bound is reached
        if (n === 31) await ping("ann", sessions[0]!);
      }
      expect(await ping("ann", sessions[1]!)).toBe(404);
      for (const session of [sessions[0]!, sessions[2]!, sessions[32]!])
        expect(await ping("ann", session)).toBe(200);
      expect(await ping("bob", bob)).toBe(200);
      expect(servers.made - servers.closed).toBe(33);
    });
  });

  test("an initialize that is refused leaves nothing", async () => {
    await catches(async (make) => {
      const { servers, initialize, send } = createHost(make);
      expect((await initialize("ann", { accept: "text/html" })).status).toBe(406);
      expect((await send("ann", "POST", {}, { id: 1, method: "ping" })).status).toBe(400);
      expect((await send("ann", "GET", {})).status).toBe(400);
      expect((await send("ann", "DELETE", {})).status).toBe(400);
      await vi.waitFor(() => expect(servers.made).toBe(servers.closed), { timeout: 500 });
    });
  });
});

describe("sessions", () => {
  test("an open stream keeps its session, and its end lets it go", async () => {
    const { open, ping, send } = createHost();
    const session = await open("ann");
    const stream = await send("ann", "GET", session);
    expect(stream.status).toBe(200);
    vi.advanceTimersByTime(3 * idleMs);
    expect(await ping("ann", session)).toBe(200);
    await stream.body!.cancel();
    vi.advanceTimersByTime(idleMs);
    expect(await ping("ann", session)).toBe(404);
  });

  test("an initialize of more than 16 KiB is refused: its session would keep it", async () => {
    const { servers, send } = createHost();
    const params = (bytes: number): object => ({
      protocolVersion: "2025-11-25",
      clientInfo: { name: "c".repeat(bytes), version: "1" },
      capabilities: {},
    });
    const message = { id: 0, method: "initialize" };
    const large = await send("ann", "POST", {}, { ...message, params: params(20_000) });
    expect([large.status, servers.made]).toEqual([413, 0]);
    const small = await send("ann", "POST", {}, { ...message, params: params(15_000) });
    expect(small.status).toBe(200);
  });

  test("DELETE ends a session and its server, once", async () => {
    const { servers, open, ping, send } = createHost();
    const session = await open("ann");
    expect((await send("ann", "DELETE", session)).status).toBe(200);
    expect(await ping("ann", session)).toBe(404);
    expect((await send("ann", "DELETE", session)).status).toBe(404);
    expect(servers).toEqual({ made: 1, closed: 1 });
  });

  test("a full process refuses with 503 and a time to come back, and the anonymous give way first", async () => {
    const { servers, open, ping, send, initialize } = createHost(createSessions, {
      sessions: { perProcess: 2 },
    });
    const [ann, nobody] = [await open("ann"), await open()];
    const bob = await open("bob");
    expect(await ping(undefined, nobody)).toBe(404);
    const refused = await initialize("carol");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([503, "10"]);
    expect((await initialize()).status).toBe(503);
    // in the place of an idle one of her own
    const again = await open("ann");
    expect(await ping("ann", ann)).toBe(404);
    // a session with an open stream is not idle
    const stream = await send("ann", "GET", again);
    expect((await initialize("ann")).status).toBe(503);
    await stream.body!.cancel();
    expect(await ping("bob", bob)).toBe(200);
    expect(servers.made - servers.closed).toBe(2);
  });

  test("bearer tokens that nothing has verified share the place of the anonymous", async () => {
    const { handler, open, ping } = createHost(createSessions, {
      sessions: { perProcess: 3, perPrincipal: 1 },
      principal: undefined as never,
    });
    const ann = await open("ann");
    for (let n = 0; n < 5; n++) {
      const headers = {
        authorization: `Bearer invented-${n}`,
        accept: "application/json, text/event-stream",
        "content-type": "application/json",
      };
      const params = {
        protocolVersion: "2025-11-25",
        clientInfo: { name: "c", version: "1" },
        capabilities: {},
      };
      const body = JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params });
      const opened = await handler.fetch(new Request(endpoint, { method: "POST", headers, body }));
      expect(opened.status).toBe(200);
      await opened.text();
    }
    expect(await ping("ann", ann)).toBe(200);
  });

  test("a server that cannot be made leaves nothing", async () => {
    let fails = true;
    const { sluice } = createHost();
    const sessions = createSessions(
      () => {
        if (fails) throw new Error("test: no server");
        return new McpServer({ name: "s", version: "1" });
      },
      sluice,
      { perProcess: 1 },
    );
    onTestFinished(() => sessions.close());
    const params = {
      protocolVersion: "2025-11-25",
      clientInfo: { name: "c", version: "1" },
      capabilities: {},
    };
    const open = () =>
      sessions.fetch(
        new Request(endpoint, {
          method: "POST",
          headers: {
            accept: "application/json, text/event-stream",
            "content-type": "application/json",
          },
          body: JSON.stringify({ jsonrpc: "2.0", id: 0, method: "initialize", params }),
        }),
      );
    await expect(open()).rejects.toThrow("no server");
    fails = false;
    expect((await open()).status).toBe(200);
  });

  test("close ends every session and its server, and leaves no timer", async () => {
    const { mcp, servers, open, ping, initialize } = createHost();
    const ann = await open("ann");
    await open("bob");
    await (mcp as ReturnType<typeof createSessions>).close();
    expect(servers).toEqual({ made: 2, closed: 2 });
    expect(vi.getTimerCount()).toBe(0);
    expect(await ping("ann", ann)).toBe(404);
    expect((await initialize("ann")).status).toBe(503);
  });

  test("rejects an invalid bound", () => {
    const { sluice } = createHost();
    const create = () => new McpServer({ name: "s", version: "1" });
    for (const bounds of [{ idleMs: 0 }, { perProcess: 1.5 }, { perPrincipal: Number.NaN }])
      expect(() => createSessions(create, sluice, bounds)).toThrow(RangeError);
  });
});

/** A window that never ends. */
function limiterOf(most: number): RateLimiter {
  const counts = new Map<string, number>();
  return {
    async consume(key, points) {
      const count = (counts.get(key) ?? 0) + points;
      if (count > most) throw { msBeforeNext: 60_000 };
      counts.set(key, count);
    },
  };
}

describe("rates.requests", () => {
  test("counts initialize and DELETE for their caller, with invented ids as well", async () => {
    const perPrincipal = limiterOf(4);
    const global = limiterOf(10);
    const { send, initialize } = createHost(createSessions, {
      rates: { requests: { perPrincipal, global } },
    });
    const end = (who?: string) => send(who, "DELETE", { "mcp-session-id": randomUUID() });
    for (let n = 0; n < 2; n++) expect((await initialize("mallory")).status).toBe(200);
    for (let n = 0; n < 2; n++) expect((await end("mallory")).status).toBe(404);
    const refused = await end("mallory");
    expect([refused.status, refused.headers.get("retry-after")]).toEqual([429, expect.any(String)]);
    expect((await initialize("mallory")).status).toBe(429);
    expect((await initialize("ann")).status).toBe(200);
    // without a principal they count for all together
    for (let n = 0; n < 5; n++) expect((await end()).status).toBe(404);
    expect((await end()).status).toBe(429);
  });
});
