// @module-tag slow
// A server, and what goes wrong between it and a client: the doctor names that, and nothing that follows from it.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { diagnose, type DiagnoseOptions } from "@sluice/bridge";
import { expect, test, vi } from "vitest";
import { createCertificate } from "../bed/certificate.ts";
import {
  cut,
  holdBack,
  pack,
  rewrite,
  startFaultyProxy,
  type Change,
  type Faults,
} from "../bed/faulty-proxy.ts";
import { freePort, listen } from "../bed/listen.ts";
import { baseUri, startSite, type Site, type SiteOptions } from "../bed/site.ts";

vi.setConfig({ testTimeout: 60_000 });

const files = { "a.bin": "0123456789".repeat(20_000) };
const watchMs = 300;

function startBehind(faults: Faults, options: SiteOptions = {}): Promise<Site> {
  const front = (target: () => number) => startFaultyProxy(target, faults);
  return startSite({ files, front, ...options });
}

async function causes(url: string, options: DiagnoseOptions = {}): Promise<string[]> {
  const findings = await diagnose(new URL(url), { watchMs, ...options });
  for (const { message } of findings) expect(message).toMatch(/^[^\n]{20,400}: [^\n]+\.$/);
  return findings.map(({ cause }) => cause);
}

/** A server of its own in place of MCP. */
async function startPlain(
  answer: (request: IncomingMessage, response: ServerResponse) => void,
): Promise<AsyncDisposable & { readonly url: string }> {
  const server = await listen(
    createServer((request, response) => {
      request.resume().on("end", () => answer(request, response));
    }),
  );
  return { url: `${server.origin}/mcp`, [Symbol.asyncDispose]: () => server.close() };
}

const isDownload = ({ method, url }: IncomingMessage): boolean =>
  method === "GET" && (url ?? "").startsWith("/mcp/streams/");
const isEvents = ({ headers }: IncomingMessage): boolean =>
  headers["content-type"]?.startsWith("text/event-stream") ?? false;

test.concurrent.each([false, true])(
  "a proxy without a fault is none, with sessions: %s",
  async (sessions) => {
    await using site = await startBehind({}, { sessions });
    expect(await causes(site.url)).toEqual([]);
  },
);

test.concurrent("a name without an address", async () => {
  expect(await causes("http://server.invalid/mcp")).toEqual(["name"]);
});

test.concurrent("a port that nothing listens on", async () => {
  expect(await causes(`http://127.0.0.1:${await freePort()}/mcp`)).toEqual(["connection"]);
});

test.concurrent("a certificate of an unknown authority", async () => {
  await using site = await startSite({ files, tls: createCertificate() });
  expect(await causes(site.url)).toEqual(["certificate"]);
});

test.concurrent("https in front of a server without TLS", async () => {
  await using site = await startBehind({});
  expect(await causes(site.url.replace("http:", "https:"))).toEqual(["certificate"]);
});

test.concurrent.each([3_600_000, -3_600_000])("a clock that is off by %i ms", async (offMs) => {
  await using site = await startBehind({
    passOn(answer) {
      answer.headers.date = new Date(Date.now() + offMs).toUTCString();
      return false;
    },
  });
  expect(await causes(site.url)).toEqual(["clock"]);
});

test.concurrent("a token that is refused by a clock that is off: both are told", async () => {
  await using site = await startBehind({
    answer(_request, response) {
      const date = new Date(Date.now() + 3_600_000).toUTCString();
      response.writeHead(401, { date, "www-authenticate": 'Bearer error="invalid_token"' }).end();
      return true;
    },
  });
  expect(await causes(site.url, { token: "t" })).toEqual(["clock", "sign-in"]);
});

test.concurrent("an endpoint that redirects", { tags: "slow" }, async () => {
  await using site = await startBehind({
    answer(request, response) {
      response.writeHead(308, { location: `${request.url}/` }).end();
      return true;
    },
  });
  expect(await causes(site.url)).toEqual(["redirect"]);
});

test.concurrent("a path without MCP", async () => {
  await using site = await startBehind({});
  expect(await causes(site.url.replace("/mcp", "/other"))).toEqual(["endpoint"]);
});

const bearer = 'Bearer realm="x"';
const refused = { "www-authenticate": `${bearer}, error="invalid_token"` };

test.concurrent.each<[string, string, number, Record<string, string>, string?, DiagnoseOptions?]>([
  ["a web page in place of MCP", "endpoint", 200, { "content-type": "text/html" }, "<h1>Hi</h1>"],
  ["JSON that is not MCP", "endpoint", 200, { "content-type": "application/json" }, '{"ok":1}'],
  ["a proxy that does not reach the server: 502", "server", 502, {}, "<h1>no</h1>"],
  ["a proxy that does not reach the server: 503", "server", 503, {}, "<h1>no</h1>"],
  ["a proxy that does not reach the server: 504", "server", 504, {}, "<h1>no</h1>"],
  ["a server that wants a token", "sign-in", 401, {}],
  ["a server that wants a token, with a challenge", "sign-in", 401, { "www-authenticate": bearer }],
  ["a token that is refused", "sign-in", 401, refused, "", { token: "old" }],
])("%s is a matter of %s", async (_, cause, status, headers, body, options) => {
  await using plain = await startPlain((_request, response) =>
    response.writeHead(status, headers).end(body),
  );
  expect(await causes(plain.url, options)).toEqual([cause]);
});

test.concurrent("a connection that breaks off before an answer", async () => {
  await using plain = await startPlain((_, response) => response.destroy());
  expect(await causes(plain.url)).toEqual(["connection"]);
});

test.concurrent("a proxy that drops Authorization", async ({ onTestFinished }) => {
  await using guarded = await startPlain(({ headers }, response) => {
    const challenge = headers.authorization ? 'Bearer error="invalid_token"' : "Bearer";
    response.writeHead(401, { "www-authenticate": challenge }).end();
  });
  const proxy = await startFaultyProxy(() => Number(new URL(guarded.url).port), {
    headers: (headers) => void delete headers.authorization,
  });
  onTestFinished(() => proxy.close());
  expect(await causes(guarded.url, { token: "t" })).toEqual(["sign-in"]);
  expect(await causes(`${proxy.origin}/mcp`, { token: "t" })).toEqual(["authorization"]);
});

test.concurrent("a proxy that sends another Host", async () => {
  await using site = await startBehind({
    headers: (headers) => void (headers.host = "inner.example"),
  });
  expect(await causes(site.url)).toEqual(["host"]);
});

test.concurrent("an origin that the server does not take", async () => {
  await using site = await startBehind({});
  expect(await causes(site.url, { headers: { Origin: "https://evil.example" } })).toEqual([
    "origin",
  ]);
});

test.concurrent.each([false, true])(
  "a proxy that drops Mcp-* headers, with sessions: %s",
  async (sessions) => {
    const drop = (headers: NodeJS.Dict<unknown>): void => {
      for (const name of Object.keys(headers)) if (name.startsWith("mcp-")) delete headers[name];
    };
    await using site = await startBehind({ headers: drop }, { sessions });
    expect(await causes(site.url)).toEqual(["mcp-headers"]);
  },
);

test.concurrent("a proxy that drops Mcp-Session-Id from answers", async () => {
  const drop = { passOn: (answer: IncomingMessage) => !delete answer.headers["mcp-session-id"] };
  await using legacy = await startBehind(
    { ...drop, headers: (headers) => void delete headers["mcp-protocol-version"] },
    { sessions: true },
  );
  expect(await causes(legacy.url)).toEqual(["mcp-headers"]);
});

test.concurrent.each([
  ["asks for a token of its own at", 401, "access", "authorization"],
  ["leaves out", 404, "public-url", "public-url"],
] as const)("a proxy that %s the download URLs", async (_, status, cause, withToken) => {
  await using site = await startBehind({
    answer: (request, response) => isDownload(request) && Boolean(response.writeHead(status).end()),
  });
  expect(await causes(site.url)).toEqual([cause]);
  expect(await causes(site.url, { token: "t" })).toEqual([withToken]);
});

test.concurrent("a server without resources", async ({ onTestFinished }) => {
  const handler = createMcpHandler(() => {
    const mcp = new McpServer({ name: "tools", version: "1.0.0" });
    mcp.registerTool("one", {}, () => ({ content: [] }));
    return mcp;
  });
  const handle = toNodeHandler(handler);
  const server = await listen(
    createServer((request, response) => void handle(request as NodeIncomingMessageLike, response)),
  );
  onTestFinished(() => server.close());
  expect(await causes(`${server.origin}/mcp`)).toEqual(["capability"]);
});

test.concurrent("download URLs with another port", async () => {
  await using site = await startBehind({});
  expect(await causes(`http://127.0.0.1:${site.port}/mcp`)).toEqual(["public-url"]);
});

test.concurrent("download URLs without the path that a proxy has in front", async () => {
  await using site = await startBehind({
    path: (path) => path.replace(/^\/tools/, ""),
    answer(request, response) {
      if (request.url?.startsWith("/tools/")) return false;
      response.writeHead(404).end();
      return true;
    },
  });
  const [finding] = await diagnose(new URL(site.url.replace("/mcp", "/tools/mcp")), { watchMs });
  expect(finding).toMatchObject({
    cause: "public-url",
    message: expect.stringContaining("/tools/mcp"),
  });
});

/** Has the server name its downloads at another origin. */
const elsewhere: Faults["passOn"] = async (answer, response, request) =>
  request.method === "POST" && !isEvents(answer)
    ? rewrite(answer, response, (body) =>
        body
          .toString()
          .replace(
            /"downloadUrl":"http:\/\/[^/]+\/mcp\/streams\//,
            '"downloadUrl":"http://localhost:9/d/',
          ),
      )
    : false;

test.concurrent("bytes at an origin that is not trusted", async () => {
  await using site = await startBehind({ passOn: elsewhere });
  expect(await causes(site.url)).toEqual(["trust"]);
});

test.concurrent("a proxy that drops Range", async () => {
  await using site = await startBehind({ headers: (headers) => void delete headers.range });
  expect(await causes(site.url)).toEqual(["range"]);
});

test.concurrent(
  "findings for a resource are as the guide prints them",
  { tags: "slow" },
  async () => {
    await using site = await startBehind({ headers: (headers) => void delete headers.range });
    const uri = `${baseUri}a.bin`;
    const { url } = site;
    // #region diagnose
    const findings = await diagnose(new URL(url), { uri });
    const lines = findings.map(({ cause, message }) => `${cause}: ${message}`);
    // #endregion diagnose
    expect(lines).toEqual([expect.stringMatching(/^range: A Range comes back as the whole file/)]);
  },
);

test.concurrent.each([
  ["packs", "changed", pack],
  [
    "shortens",
    "changed",
    (answer, response) => rewrite(answer, response, (body) => body.subarray(1)),
  ],
  ["cuts", "cut", cut],
] as [string, string, Change][])(
  "a proxy that %s downloads is a matter of %s",
  async (_, cause, change) => {
    await using site = await startBehind({
      passOn: (answer, response, request) => isDownload(request) && change(answer, response),
    });
    expect(await causes(site.url)).toEqual([cause]);
  },
);

// late is what comes later than other answers: no other test makes those late
test("a proxy that holds downloads back", { tags: "slow" }, async () => {
  await using site = await startBehind({
    passOn: (answer, response, request) =>
      isDownload(request) && !request.headers.range && holdBack(answer, response),
  });
  expect(await causes(site.url)).toEqual(["buffering"]);
});

test.concurrent.each([false, true])(
  "a proxy that holds events back, with sessions: %s",
  { tags: "slow" },
  async (sessions) => {
    await using site = await startBehind(
      {
        passOn: (answer, response) => isEvents(answer) && rewrite(answer, response, (body) => body),
      },
      { sessions },
    );
    expect(await causes(site.url)).toEqual(["buffering"]);
  },
);

test.concurrent.each([false, true])(
  "a proxy that cuts open streams, with sessions: %s",
  async (sessions) => {
    await using site = await startBehind(
      {
        passOn(answer, response) {
          if (isEvents(answer)) setTimeout(() => response.destroy(), 100);
          return false;
        },
      },
      { sessions },
    );
    expect(await causes(site.url)).toEqual(["cut"]);
  },
);

test.concurrent("a server that never answers ends in time", { tags: "slow" }, async () => {
  await using plain = await startPlain(() => {});
  expect(await causes(plain.url, { timeoutMs: 500 })).toEqual(["connection"]);
});
