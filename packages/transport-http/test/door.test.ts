import { once } from "node:events";
import { createServer } from "node:http";
import { connect } from "node:net";
import {
  createMcpHandler,
  McpServer,
  OAuthError,
  OAuthErrorCode,
} from "@modelcontextprotocol/server";
import { createMemoryEventStore } from "@sluice/state/internal";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { withBinary, withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { withResume } from "../../resume/src/internal.ts";
import { describe, expect, onTestFinished, test } from "vitest";
import { listen } from "./serve.ts";

const endpoint = "https://files.example.com/mcp";
const page = "https://app.example.com";
const json = {
  "content-type": "application/json",
  accept: "application/json, text/event-stream",
  "mcp-protocol-version": "2025-11-25",
};

function build(url = endpoint) {
  const asked: string[] = [];
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": "0123456789" }),
    baseUri: "files://demo/",
    endpoint: url,
    keys: "ephemeral",
    principal: () => ({ issuer: "i", subject: "s", clientId: "c" }),
    onWarning: () => {},
  });
  const sdk = createMcpHandler(() =>
    sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })),
  );
  const mcp: McpFetchHandler = {
    fetch(request, options) {
      asked.push(`${request.method} ${new URL(request.url).pathname}`);
      return sdk.fetch(request, options);
    },
  };
  const options = { origins: [page] };
  const store = createMemoryEventStore();
  const resume = { ...options, store };
  return {
    asked,
    mcp,
    sluice,
    layers: {
      withSluice: withSluice(mcp, sluice, options),
      "withBinary outside": withBinary(withSluice(mcp, sluice, options)),
      "withBinary inside": withSluice(withBinary(mcp), sluice, options),
      "withResume inside": withSluice(withResume(mcp, sluice, resume), sluice, options),
      "withResume outside": withResume(withSluice(mcp, sluice, options), sluice, {
        stores: { events: store },
      }),
      "withResume alone": withResume(mcp, sluice, resume),
    },
  };
}

type Layers = keyof ReturnType<typeof build>["layers"];
const layers: readonly Layers[] = [
  "withSluice",
  "withBinary outside",
  "withBinary inside",
  "withResume inside",
  "withResume outside",
  "withResume alone",
];

const calls: Readonly<Record<string, object>> = {
  list: { method: "resources/list", params: {} },
  read: { method: "resources/read", params: { uri: "files://demo/a.bin" } },
  tools: { method: "tools/list", params: {} },
  initialize: {
    method: "initialize",
    params: {
      protocolVersion: "2025-11-25",
      capabilities: {},
      clientInfo: { name: "c", version: "1" },
    },
  },
};

function callOf(name: string, headers: Record<string, string> = {}, url = endpoint): Request {
  const body = JSON.stringify({ jsonrpc: "2.0", id: 1, ...calls[name] });
  return new Request(url, { method: "POST", headers: { ...json, ...headers }, body });
}

describe.each(layers)("the door of %s", (name) => {
  test.each(Object.keys(calls))("lets %s in from its own host and origins only", async (call) => {
    const { layers: all, asked } = build();
    const status = async (headers: Record<string, string>): Promise<number> => {
      const response = await all[name].fetch(callOf(call, headers));
      await response.body?.cancel();
      return response.status;
    };
    expect(await status({ host: "evil.example.com" })).toBe(421);
    expect(await status({ host: "files.example.com.evil.example" })).toBe(421);
    expect(await status({ origin: "https://evil.example.com" })).toBe(403);
    expect(await status({ origin: "null" })).toBe(403);
    expect(asked).toEqual([]);
    expect(await status({})).toBe(200);
    expect(await status({ origin: page })).toBe(200);
    expect(asked).toHaveLength(2);
  });

  test("answers OPTIONS of a page that may ask, and its calls, with what it needs to read", async () => {
    const { layers: all, asked } = build();
    const handler = all[name];
    const preflight = (origin: string): Promise<Response> =>
      handler.fetch(
        new Request(endpoint, {
          method: "OPTIONS",
          headers: { origin, "access-control-request-method": "POST" },
        }),
      );
    const { status, headers } = await preflight(page);
    expect([status, headers.get("access-control-allow-origin")]).toEqual([204, page]);
    expect(headers.get("access-control-allow-methods")).toBe("GET, POST, DELETE");
    for (const field of ["Authorization", "Mcp-Session-Id", "MCP-Protocol-Version", "Mcp-Method"])
      expect(headers.get("access-control-allow-headers")).toContain(field);
    expect((await preflight("https://evil.example.com")).status).toBe(403);
    expect(asked).toEqual([]);
    const called = await handler.fetch(callOf("list", { origin: page }));
    expect(called.headers.get("access-control-allow-origin")).toBe(page);
    expect(called.headers.get("access-control-expose-headers")).toContain("Mcp-Session-Id");
    expect(await called.text()).toContain("a.bin");
    const plain = await handler.fetch(callOf("list"));
    expect(plain.headers.get("access-control-allow-origin")).toBeNull();
  });

  test("knows no path but the endpoint and its routes", async () => {
    const { layers: all, asked } = build();
    for (const path of ["/", "/mcp/", "/MCP", "/mcp/x", "/mcp/streams", "/mcp/resume", "/mcp%2f"]) {
      const response = await all[name].fetch(callOf("list", {}, new URL(path, endpoint).href));
      expect([path, [400, 404].includes(response.status)]).toEqual([path, true]);
    }
    expect(asked).toEqual([]);
  });
});

describe("the Node adapter", () => {
  async function start(options: NodeHandlerOptions = {}, isBare = false) {
    const errors: unknown[] = [];
    const server = createServer((request, response) => handle(request, response));
    const origin = await listen(server);
    const { mcp, asked, layers: all } = build(`${origin}/mcp`);
    const handle = toNodeHandler(isBare ? mcp : all.withSluice, {
      onError: (error) => void errors.push(error),
      ...options,
    });
    async function send(text: string): Promise<string> {
      const socket = connect(Number(new URL(origin).port), "127.0.0.1", () => socket.write(text));
      let answer = "";
      socket.setEncoding("latin1").on("data", (chunk: string) => void (answer += chunk));
      await once(socket, "close");
      return answer;
    }
    const ask = (line: string, more = ""): Promise<string> =>
      send(`${line} HTTP/1.1\r\nHost: 127.0.0.1\r\n${more}Connection: close\r\n\r\n`);
    return { origin, errors, asked, ask };
  }

  test.each([false, true])(
    "answers odd targets and methods, and hands none of them on (bare handler: %s)",
    async (isBare) => {
      const { origin, errors, asked, ask } = await start({}, isBare);
      for (const target of [
        "*",
        `${origin}/mcp`,
        "//mcp",
        "/./mcp",
        "/mcp/..",
        "/x/%2e%2e/mcp",
        "/mcp#a",
        "/mcp\\",
      ])
        for (const method of ["GET", "OPTIONS", "TRACE", "DELETE"])
          expect(await ask(`${method} ${target}`), target).toMatch(/^HTTP\/1\.1 400 /);
      expect(await ask("TRACE /mcp")).toMatch(/^HTTP\/1\.1 405 [^]*Allow: GET, POST, DELETE/);
      expect(await ask("GET /mcp", "Host: 127.0.0.1\r\n")).toMatch(/^HTTP\/1\.1 400 /);
      expect([errors, asked]).toEqual([[], []]);
    },
  );

  const bearer: NonNullable<NodeHandlerOptions["authenticate"]> = (request, response, next) => {
    if (request.headers.authorization === "Bearer right") next();
    else response.writeHead(401, { "WWW-Authenticate": "Bearer" }).end();
  };

  test("asks for authentication where a route needs it, and nowhere else", async () => {
    const kinds: string[] = [];
    const { ask, asked } = await start({
      authenticate(request, response, next, route) {
        kinds.push(route.kind);
        return bearer(request, response, next, route);
      },
    });
    const preflight = `Origin: ${page}\r\nAccess-Control-Request-Method: POST\r\n`;
    expect(await ask("OPTIONS /mcp", preflight)).toMatch(/ 204 /);
    expect(await ask("GET /other")).toMatch(/ 404 /);
    expect(await ask("GET //mcp")).toMatch(/ 400 /);
    expect(await ask("GET /mcp", "Origin: https://evil.example\r\n")).toMatch(/ 403 /);
    expect(kinds).toEqual([]);
    expect(await ask("GET /mcp")).toMatch(/ 401 /);
    expect(await ask("GET /mcp/streams/x")).toMatch(/ 401 /);
    expect(asked).toEqual([]);
    expect(await ask("GET /mcp", "Authorization: Bearer right\r\n")).toMatch(/ 405 /);
    expect(await ask("GET /mcp/streams/x", "Authorization: Bearer right\r\n")).toMatch(/ 404 /);
    expect(kinds).toEqual(["mcp", "stream", "mcp", "stream"]);
  });

  test("verifies bearer tokens as the SDK does, without Express", async () => {
    const { ask, asked, errors } = await start({
      bearer: {
        resourceMetadataUrl: "https://files.example.com/metadata",
        verifier: {
          async verifyAccessToken(token) {
            if (token === "broken") throw new Error("broken");
            if (token !== "right") throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown");
            return { token, clientId: "c", scopes: [], expiresAt: Date.now() / 1_000 + 60 };
          },
        },
      },
    });
    const challenge = 'www-authenticate: Bearer error="invalid_token"';
    const metadata = 'resource_metadata="https://files.example.com/metadata"';
    for (const fields of ["", "Authorization: Bearer wrong\r\n"]) {
      const refused = await ask("GET /mcp", `Origin: ${page}\r\n${fields}`);
      expect(refused).toMatch(/^HTTP\/1\.1 401 /);
      expect(refused).toContain(challenge);
      expect(refused).toContain(metadata);
      expect(refused).toContain(`Access-Control-Allow-Origin: ${page}`);
    }
    expect([asked, errors]).toEqual([[], []]);
    expect(await ask("GET /mcp", "Authorization: Bearer broken\r\n")).toMatch(/ 500 /);
    expect([asked, errors]).toEqual([[], [new Error("broken")]]);
    expect(await ask("GET /mcp", "Authorization: Bearer right\r\n")).toMatch(/ 405 /);
  });

  test.each<[string, NodeHandlerOptions, string]>([
    ["no verifier", { bearer: {} as never }, "bearer: pass a verifier"],
    [
      "middleware as well",
      { authenticate() {}, bearer: { verifier: { verifyAccessToken: async () => ({}) as never } } },
      "pass authenticate or bearer, and not both",
    ],
  ])("bearer with %s is a TypeError", (_name, options, message) => {
    expect(() => toNodeHandler(build().mcp, options)).toThrow(message);
  });

  test("lets an allowed page read that it has to authenticate", async () => {
    const { ask } = await start({ authenticate: bearer });
    const refused = await ask("GET /mcp", `Origin: ${page}\r\n`);
    expect(refused).toMatch(/ 401 /);
    expect(refused.toLowerCase()).toContain(`access-control-allow-origin: ${page}`);
    const taken = await ask("GET /mcp", `Origin: ${page}\r\nAuthorization: Bearer right\r\n`);
    expect(taken.toLowerCase().split("access-control-allow-origin: ")).toHaveLength(2);
  });

  test.each<[string, NonNullable<NodeHandlerOptions["authenticate"]>]>([
    [
      "throws",
      () => {
        throw new Error("broken");
      },
    ],
    ["rejects", () => Promise.reject(new Error("broken"))],
    ["gives an error to next", (_request, _response, next) => next(new Error("broken"))],
  ])("authentication that %s lets nothing in", async (_name, authenticate) => {
    const { ask, asked, errors } = await start({ authenticate });
    expect(await ask("GET /mcp")).toMatch(/^HTTP\/1\.1 500 /);
    expect(errors).toEqual([new Error("broken")]);
    expect(asked).toEqual([]);
  });

  test.each<[string, NonNullable<NodeHandlerOptions["authenticate"]>]>([
    ["ended", (_request, response, next) => (response.writeHead(401).end(), next())],
    ["begun", (_request, response, next) => (response.writeHead(401).flushHeaders(), next())],
    [
      "ended, later",
      (_request, response, next) => {
        response.writeHead(401).end();
        setImmediate(next);
      },
    ],
  ])(
    "a hook that has %s an answer lets nothing in, also when it calls next",
    async (_name, hook) => {
      const { ask, asked, errors } = await start({
        authenticate(request, response, next, route) {
          // for the answer that is only begun
          setTimeout(() => response.end(), 50);
          return hook(request, response, next, route);
        },
      });
      expect(await ask("GET /mcp")).toMatch(/^HTTP\/1\.1 401 /);
      expect([asked, errors]).toEqual([[], []]);
    },
  );

  test(
    "the rest of a body that the hook refused ends with its connection, and a complete body does not",
    { tags: "slow" },
    async () => {
      const { origin } = await start({ authenticate: bearer });
      const socket = connect(Number(new URL(origin).port), "127.0.0.1");
      const post = (length: number) =>
        `POST /mcp HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: ${length}\r\n\r\n`;
      socket.on("error", () => {}).setEncoding("latin1");
      for (let asked = 0; asked < 2; asked++) {
        socket.write(`${post(2)}{}`);
        expect((await once(socket, "data"))[0]).toMatch(/^HTTP\/1\.1 401 /);
      }
      socket.write(`${post(2 ** 40)}{`);
      const sending = setInterval(() => void socket.write("x"), 20);
      onTestFinished(() => {
        clearInterval(sending);
        socket.destroy();
      });
      // `once` would reject with the reset that a sender may see first
      await new Promise((resolve) => void socket.on("close", resolve));
    },
  );

  test("middleware that verified a token in the hook is where the identity comes from", async () => {
    const found: unknown[] = [];
    const auth = { token: "right", clientId: "app", scopes: [] };
    const mcp: McpFetchHandler = {
      fetch: async (_request, options) => {
        found.push(options?.authInfo);
        return new Response(null, { status: 204 });
      },
    };
    const handle = toNodeHandler(mcp, {
      authenticate(request, _response, next) {
        Object.assign(request, { auth });
        next();
      },
    });
    await fetch(await listen(createServer(handle)));
    expect(found).toEqual([auth]);
  });
});
