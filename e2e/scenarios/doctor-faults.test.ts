// @module-tag slow
// A server, and what goes wrong between it and a client: the doctor names that, and nothing that follows from it.
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { diagnose, type DiagnoseOptions } from "@sluice/bridge";
import { expect, test, vi } from "vitest";
import { createCertificate } from "../bed/certificate.ts";
import { startFaultyProxy, type Faults } from "../bed/faulty-proxy.ts";
import { freePort, listen } from "../bed/listen.ts";
import { hasNginx, startNginx } from "../bed/nginx.ts";
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

/** Passes an answer on with another body. */
async function rewrite(
  answer: IncomingMessage,
  response: ServerResponse,
  change: (body: Buffer) => Buffer | string,
  more: Record<string, string> = {},
): Promise<true> {
  const body = change(await buffer(answer));
  const { "content-length": _, "transfer-encoding": __, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 502, { ...headers, ...more }).end(body);
  return true;
}

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

test.concurrent("a web page in place of MCP", async () => {
  await using plain = await startPlain((_, response) =>
    response.writeHead(200, { "content-type": "text/html" }).end("<h1>Sign in</h1>"),
  );
  expect(await causes(plain.url)).toEqual(["endpoint"]);
});

test.concurrent("JSON that is not MCP", async () => {
  await using plain = await startPlain((_, response) =>
    response.writeHead(200, { "content-type": "application/json" }).end('{"status":"ok"}'),
  );
  expect(await causes(plain.url)).toEqual(["endpoint"]);
});

test.concurrent.each([502, 503, 504])(
  "a proxy that does not reach the server: %i",
  async (status) => {
    await using plain = await startPlain((_, response) =>
      response.writeHead(status).end("<h1>no</h1>"),
    );
    expect(await causes(plain.url)).toEqual(["server"]);
  },
);

test.concurrent("a connection that breaks off before an answer", async () => {
  await using plain = await startPlain((_, response) => response.destroy());
  expect(await causes(plain.url)).toEqual(["connection"]);
});

test.concurrent.each([{}, { "www-authenticate": 'Bearer realm="x"' }])(
  "a server that wants a token, with the challenge %j",
  async (headers) => {
    await using plain = await startPlain((_, response) => response.writeHead(401, headers).end());
    expect(await causes(plain.url)).toEqual(["sign-in"]);
  },
);

test.concurrent("a token that is refused", async () => {
  const headers = { "www-authenticate": 'Bearer realm="x", error="invalid_token"' };
  await using plain = await startPlain((_, response) => response.writeHead(401, headers).end());
  expect(await causes(plain.url, { token: "old" })).toEqual(["sign-in"]);
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

test.concurrent("a proxy that asks for a token of its own at download URLs", async () => {
  await using site = await startBehind({
    answer(request, response) {
      if (!isDownload(request)) return false;
      response.writeHead(401).end();
      return true;
    },
  });
  expect(await causes(site.url)).toEqual(["access"]);
  expect(await causes(site.url, { token: "t" })).toEqual(["authorization"]);
});

test.concurrent("a proxy that leaves out the download URLs", async () => {
  await using site = await startBehind({
    answer(request, response) {
      if (!isDownload(request)) return false;
      response.writeHead(404).end();
      return true;
    },
  });
  expect(await causes(site.url)).toEqual(["public-url"]);
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

test.concurrent("a proxy that packs downloads", async () => {
  await using site = await startBehind({
    passOn: (answer, response, request) =>
      isDownload(request) && rewrite(answer, response, gzipSync, { "content-encoding": "gzip" }),
  });
  expect(await causes(site.url)).toEqual(["changed"]);
});

test.concurrent("a proxy that shortens downloads", async () => {
  await using site = await startBehind({
    passOn: (answer, response, request) =>
      isDownload(request) && rewrite(answer, response, (body) => body.subarray(1)),
  });
  expect(await causes(site.url)).toEqual(["changed"]);
});

test.concurrent("a proxy that cuts downloads", { tags: "slow" }, async () => {
  await using site = await startBehind({
    passOn(answer, response, request) {
      if (!isDownload(request)) return false;
      response.writeHead(200, answer.headers);
      answer.once("data", (chunk: Buffer) => {
        response.write(chunk.subarray(0, 1_000), () => response.destroy());
      });
      return true;
    },
  });
  expect(await causes(site.url)).toEqual(["cut"]);
});

// late is what comes later than other answers: no other test makes those late
test("a proxy that holds downloads back", { tags: "slow" }, async () => {
  await using site = await startBehind({
    async passOn(answer, response, request) {
      if (!isDownload(request) || request.headers.range) return false;
      await new Promise((resolve) => setTimeout(resolve, 1_500));
      return rewrite(answer, response, (body) => body);
    },
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

test.concurrent("a proxy that refuses large requests", { tags: "slow" }, async () => {
  await using site = await startBehind({
    answer(request, response) {
      if (Number(request.headers["content-length"] ?? 0) < 2 ** 15) return false;
      response.writeHead(413).end();
      return true;
    },
  });
  expect(await causes(site.url)).toEqual(["body-cap"]);
});

test
  .skipIf(!hasNginx)
  .concurrent("nginx with a small client_max_body_size refuses large requests", async () => {
    await using site = await startSite({
      files,
      front: (target) =>
        startNginx(
          (port) =>
            `server { listen 127.0.0.1:${port}; client_max_body_size 32k; location / {
             proxy_set_header Host $http_host; proxy_pass http://127.0.0.1:${target()}; } }`,
        ),
    });
    expect(await causes(site.url)).toEqual(["body-cap"]);
  });

test.concurrent("a server that never answers ends in time", { tags: "slow" }, async () => {
  await using plain = await startPlain(() => {});
  expect(await causes(plain.url, { timeoutMs: 500 })).toEqual(["connection"]);
});
