// What a bridge makes of the statuses of servers and proxies: method × status × revision, a line each.
import { describe, expect, test } from "vitest";
import { createHttpUpstream } from "@sluice/bridge";
import { bridged, bridgedTo, createHost } from "./bridged.ts";
import { error, startFieldPeer, type Oddity } from "./field-peer.ts";

const html = { "content-type": "text/html" };
const json = { "content-type": "application/json" };
const events = { "content-type": "text/event-stream" };

type Headers = Readonly<Record<string, string>>;

/** One answer: status, body and header fields; or a way to give none. */
type Given = readonly [status: number, body?: string, headers?: Headers] | "reset" | "silence";

function give(given: Given): Oddity {
  return (_request, response) => {
    if (given === "silence") return true;
    if (given === "reset") return response.destroy();
    const [status, body = "", headers = html] = given;
    return response.writeHead(status, headers).end(body);
  };
}

/** Answers to what is not a call: the session goes on whatever they are. */
const besideCalls: readonly (readonly [method: string, given: Given])[] = [
  ["GET", [404, "Cannot GET /mcp"]],
  ["GET", [400, "Bad Request"]],
  ["GET", [400, error(null, -32_000, "Bad Request: Server not initialized"), json]],
  ["GET", [401, "Unauthorized"]],
  ["GET", [401, "no session", json]],
  ["GET", [403, "Forbidden"]],
  ["GET", [405, ""]],
  ["GET", [406, "Not Acceptable"]],
  ["GET", [500, "Internal Server Error"]],
  ["GET", [501, ""]],
  ["GET", [502, "Bad Gateway"]],
  ["GET", [503, ""]],
  ["GET", [200, "<h1>Hello</h1>"]],
  ["GET", [200, "{}", json]],
  ["GET", [200, "", events]],
  ["GET", [204]],
  ["GET", "silence"],
  ["GET", "reset"],
  ["notifications/initialized", [200, ""]],
  ["notifications/initialized", [204]],
  ["notifications/initialized", [200, error(null, -32_601, "Method not found"), json]],
  ["notifications/initialized", [400, error(null, -32_600, "Invalid Request"), json]],
  ["notifications/initialized", [404, "Cannot POST"]],
  ["notifications/initialized", [404, error(null, -32_601, "Method not found"), json]],
  ["notifications/initialized", [405, ""]],
  ["notifications/initialized", [500, ""]],
  ["DELETE", [404, "Cannot DELETE /mcp"]],
  ["DELETE", [405]],
  ["DELETE", [500]],
  ["DELETE", "silence"],
];

test.each(["id: a\n\n", "id: a\r\n\r\n", "id: a\ndata:\n\n"])(
  "a stream that ends after %j is resumed there",
  async (first) => {
    const asked: unknown[] = [];
    const answer = { jsonrpc: "2.0", result: { content: [{ type: "text", text: "resumed" }] } };
    let id: unknown;
    const peer = await startFieldPeer((request, response) => {
      const from = request.headers["last-event-id"];
      if (request.method === "tools/call") {
        ({ id } = request);
        return response.writeHead(200, events).end(`retry: 1\n${first}`);
      }
      if (request.method !== "GET" || from === undefined) return undefined;
      asked.push(from);
      return response.writeHead(200, events).end(`data: ${JSON.stringify({ ...answer, id })}\n\n`);
    });
    const client = createHost("legacy");
    await client.connect(bridgedTo(peer.url).transport);
    const { content } = await client.callTool({ name: "echo" });
    expect(content).toEqual([{ type: "text", text: "resumed" }]);
    expect(asked).toEqual(["a"]);
  },
);

test.each(besideCalls)("a session goes on when %s gets %j", async (method, given) => {
  const answer = give(given);
  const peer = await startFieldPeer((request, response, all) =>
    request.method === method ? answer(request, response, all) : undefined,
  );
  const client = createHost("legacy");
  const { transport } = bridgedTo(peer.url);
  await client.connect(transport);
  for (let call = 0; call < 6; call++) {
    if (call === 3) await new Promise((resolve) => setTimeout(resolve, 200));
    expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
  }
  expect(peer.runs).toHaveLength(6);
  expect(peer.methods.filter((each) => each === "initialize")).toHaveLength(1);
  await client.close();
});

const notInitialized = error(null, -32_000, "Bad Request: Server not initialized");

/** What servers answer to a POST in a session that they do not know, as after a restart: it did not run. */
const unknownSessions: readonly { readonly given: Given }[] = [
  { given: [404] },
  { given: [404, "Not Found"] },
  { given: [404, error(null, -32_001, "Session not found"), json] },
  { given: [404, error(null, -32_000, "unknown client"), json] },
  { given: [400, notInitialized, json] },
  { given: [400, error(null, -32_000, "Bad Request: No valid session ID provided"), json] },
  { given: [400, "Invalid session"] },
  { given: [401, error(null, -32_000, "no such session"), json] },
  { given: [401, "Session expired"] },
  { given: [403, "Session is of another process"] },
  { given: [410, "session gone"] },
];

test.each(unknownSessions)(
  "a restarted server that answers $given is found again, and each call runs once",
  async ({ given }) => {
    const answer = give(given);
    const peer = await startFieldPeer((request, response, all) =>
      request.method !== "initialize" && request.session === undefined
        ? answer(request, response, all)
        : undefined,
    );
    const client = createHost("legacy");
    await client.connect(bridgedTo(peer.url).transport);
    await client.callTool({ name: "echo" });
    peer.restart();
    expect((await client.listTools()).tools).toHaveLength(1);
    peer.restart();
    expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
    expect(peer.runs).toHaveLength(2);
    expect(peer.methods.filter((each) => each === "initialize")).toHaveLength(3);
  },
);

/** A status of a proxy in front of a server that restarts, and whether a call with it may have run. */
const away: readonly (readonly [status: number, mayHaveRun: boolean])[] = [
  [502, true],
  [503, false],
  [504, true],
  [520, true],
  [524, true],
];

test.each(away)(
  "%i of a proxy is waited out by what may be repeated",
  async (status, mayHaveRun) => {
    const waitOut = async (isStateless: boolean): Promise<void> => {
      const closed = new Map<string, number>();
      const peer = await startFieldPeer(
        ({ method }, response) => {
          const left = closed.get(method) ?? 0;
          closed.set(method, left - 1);
          return left > 0 ? response.writeHead(status, html).end("<h1>nginx</h1>") : undefined;
        },
        { isStateless },
      );
      closed.set("initialize", 2);
      const client = createHost("legacy");
      await client.connect(bridgedTo(peer.url).transport);
      closed.set("tools/list", 2);
      expect((await client.listTools()).tools).toHaveLength(1);
      closed.set("tools/call", 1);
      const call = client.callTool({ name: "echo" }).then(
        (result) => JSON.stringify(result),
        (fault: Error) => fault.message,
      );
      expect(await call).toContain(mayHaveRun ? `HTTP ${status}). It may have run` : '"ran"');
    };
    await Promise.all([waitOut(false), waitOut(true)]);
  },
);

/** Answers to a call that are about the call: no session is lost, and each is told. */
const refusals: readonly (readonly [given: Given, words: RegExp])[] = [
  [[400, error(null, -32_602, "unknown session_id of the browser"), json], /unknown session_id/],
  [[301, "", { location: "/mcp/" }], /HTTP 301, a redirect; use the URL that it leads to/],
  [[302, "", { location: "/login" }], /HTTP 302, a redirect/],
  [[400, "Bad Request"], /refused the call: HTTP 400/],
  [[401, "Unauthorized"], /refused the call: HTTP 401/],
  [[403, "Forbidden"], /refused the call: HTTP 403/],
  [[413, ""], /refused the call: HTTP 413/],
  [[422, ""], /refused the call: HTTP 422/],
  [[429, ""], /refused the call: HTTP 429/],
  [[500, ""], /HTTP 500\)\. It may have run/],
  [[501, ""], /HTTP 501\)\. It may have run/],
  [[404, "Cannot POST"], /refused the call: HTTP 404/],
];

test.each(refusals)("a call that gets %j fails with its reason", async (given, words) => {
  const answer = give(given);
  const peer = await startFieldPeer((request, response, all) =>
    request.method === "tools/call" ? answer(request, response, all) : undefined,
  );
  const client = createHost("legacy");
  await client.connect(bridgedTo(peer.url).transport);
  await expect(client.callTool({ name: "echo" })).rejects.toThrow(words);
  expect((await client.listTools()).tools).toHaveLength(1);
  // 404 has the session begun anew, and no more often than a lost one needs
  expect(peer.methods.filter((each) => each === "initialize").length).toBeLessThan(4);
});

/** Answers to `server/discover` of servers that do not know it. */
const undiscovered: readonly Given[] = [
  [200, error(1, -32_601, "Method not found"), json],
  [200, error(null, -32_601, "Method not found"), json],
  [200, JSON.stringify({ jsonrpc: "2.0", error: { code: -32_600, message: "x" } }), json],
  [200, JSON.stringify({ error: "unknown" }), json],
  [200, "<h1>Hello</h1>"],
  [200, "{}", json],
  [200, "", events],
  [202],
  [204],
  [400, "Bad Request: Server not initialized"],
  [404, "Not Found"],
  [405],
  [406],
  [415],
  [422],
  [500, "Internal Server Error"],
  [501],
  [502, "Bad Gateway"],
  [504],
  "reset",
  "silence",
];

describe.each(undiscovered.map((given) => ({ given })))(
  "server/discover gets $given",
  ({ given }) => {
    // silence is waited for
    const tags = given === "silence" ? ["slow"] : [];
    // the SDK's own limit is a minute
    test("a host of 2026-07-28 reaches an older server", { tags, timeout: 45_000 }, async () => {
      const answer = give(given);
      const peer = await startFieldPeer((request, response, all) =>
        request.method === "server/discover" ? answer(request, response, all) : undefined,
      );
      const client = createHost("modern");
      await client.connect(bridgedTo(peer.url).transport);
      expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
    });
  },
);

test("a session whose open stream ends with a restart is begun anew before the next call", async () => {
  let isOpen = true;
  let end: (() => void) | undefined;
  const peer = await startFieldPeer(({ method, session }, response) => {
    if (method !== "GET" || !isOpen || session === undefined) return undefined;
    response.writeHead(200, events).write(": open\n\n");
    return (end = () => response.end());
  });
  const client = createHost("legacy");
  await client.connect(bridgedTo(peer.url).transport);
  await expect.poll(() => end).toBeDefined();
  peer.restart();
  end?.();
  const opened = () => peer.methods.filter((each) => each === "initialize").length;
  await expect.poll(opened, { timeout: 5_000 }).toBe(2);
  // the twin: a stream that is refused while the session lives ends nothing
  isOpen = false;
  end?.();
  await expect.poll(() => peer.methods.at(-1), { timeout: 5_000 }).toBe("ping");
  expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
  expect(opened()).toBe(2);
});

test.each([307, 308])("%i to the path with a slash, as of FastMCP, is followed", async (status) => {
  const tokens = new Set<unknown>();
  const peer = await startFieldPeer(({ path, headers }, response) => {
    if (path !== "/mcp/") return response.writeHead(status, { location: "/mcp/" }).end();
    return void tokens.add(headers.authorization);
  });
  const client = createHost("legacy");
  const upstream = createHttpUpstream({ endpoint: new URL("/mcp", peer.url), token: "t" });
  await client.connect(bridged({ upstream }).transport);
  expect(await client.callTool({ name: "echo" })).toMatchObject({ content: [{ text: "ran" }] });
  expect([...tokens]).toEqual(["Bearer t"]);
});

test("a session id that a proxy gives twice is one", async () => {
  const sessions = new Set<unknown>();
  const peer = await startFieldPeer(
    ({ method, headers, id }, response) => {
      sessions.add(headers["mcp-session-id"]);
      if (method !== "initialize") return undefined;
      const serverInfo = { name: "field", version: "1" };
      const result = { protocolVersion: "2025-11-25", capabilities: { tools: {} }, serverInfo };
      return response
        .writeHead(200, [
          "Content-Type",
          "application/json",
          "Mcp-Session-Id",
          "a",
          "mcp-session-id",
          "a",
        ])
        .end(JSON.stringify({ jsonrpc: "2.0", id, result }));
    },
    { isStateless: true },
  );
  const client = createHost("legacy");
  await client.connect(bridgedTo(peer.url).transport);
  await client.callTool({ name: "echo" });
  expect([...sessions]).toEqual([undefined, "a"]);
});

test("cookies of a load balancer go back to its origin, and to no other", async () => {
  const seen: unknown[] = [];
  const peer = await startFieldPeer(({ method, headers }, response) => {
    seen.push(headers.cookie);
    if (method !== "initialize") return undefined;
    return void response.setHeader("set-cookie", [
      "AWSALB=a/b+c==; Expires=Fri, 01 Jan 2100 00:00:00 GMT; Path=/",
      "elsewhere=1; Path=/other",
      "secret=1; Secure; Path=/",
      "gone=1; Max-Age=0",
      "own=theirs",
    ]);
  });
  const headers = { cookie: "own=mine" };
  const client = createHost("legacy");
  await client.connect(
    bridged({ upstream: createHttpUpstream({ endpoint: peer.url, headers }) }).transport,
  );
  await client.callTool({ name: "echo" });
  expect(seen[0]).toBe("own=mine");
  expect(new Set(seen.slice(1))).toEqual(new Set(["own=mine; AWSALB=a/b+c=="]));
  // the next session begins without them
  seen.length = 0;
  const other = createHost("legacy");
  await other.connect(bridgedTo(peer.url).transport);
  expect(seen[0]).toBeUndefined();
});
