import { once } from "node:events";
import { existsSync } from "node:fs";
import { mkdtemp, readdir, rm } from "node:fs/promises";
import { createServer, type RequestListener, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { createSluice, type SluiceOptions } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { afterAll, beforeAll, expect, test, vi } from "vitest";
import { exitCodes, outcomes } from "../src/terminal/exit-code.ts";
import { runHere as run } from "./run-here.ts";

// programs are started for real, and tests of other files take the processors meanwhile
vi.setConfig({ testTimeout: 60_000, hookTimeout: 60_000 });

let root = "";
const servers: Server[] = [];
beforeAll(async () => {
  root = await mkdtemp(join(tmpdir(), "sluice-cli-"));
});
afterAll(async () => {
  for (const server of servers) server.close().closeAllConnections();
  await rm(root, { recursive: true });
});

/** Starts a server on a free port; gives its origin. */
async function listen(listener?: RequestListener): Promise<{ server: Server; origin: string }> {
  const server = createServer(listener).listen(0, "127.0.0.1");
  servers.push(server);
  await once(server, "listening");
  return { server, origin: `http://127.0.0.1:${(server.address() as AddressInfo).port}` };
}

test("pages that lead in a circle are an error, however long it is", async () => {
  for (const length of [1, 2, 5]) {
    const { origin } = await listen((req, res) => {
      let body = "";
      req.setEncoding("utf8").on("data", (text: string) => (body += text));
      req.on("end", () => {
        const {
          id,
          method,
          params = {},
        } = JSON.parse(body || "{}") as {
          id?: number;
          method?: string;
          params?: { cursor?: string };
        };
        const next = (Number(params.cursor ?? -1) + 1) % length;
        const result =
          method === "resources/list"
            ? { resources: [], nextCursor: `${next}` }
            : {
                protocolVersion: "2025-11-25",
                capabilities: { resources: {} },
                serverInfo: { name: "circle", version: "1" },
              };
        if (method !== "resources/list" && method !== "initialize")
          return void res.writeHead(id === undefined ? 202 : 404).end();
        res.writeHead(200, { "content-type": "application/json" });
        return void res.end(JSON.stringify({ jsonrpc: "2.0", id, result }));
      });
    });
    const { status, stderr } = await run(["ls", `${origin}/mcp`]);
    expect([status, stderr]).toEqual([
      exitCodes[outcomes.protocol].status,
      expect.stringContaining("keeps giving the same pages"),
    ]);
  }
});

/** A server of one object whose answers may be altered; gives its URL. */
async function serveBadly(
  options: Partial<SluiceOptions>,
  alter: (answer: Response) => Response = (answer) => answer,
): Promise<string> {
  const { server, origin } = await listen();
  const endpoint = `${origin}/mcp`;
  const sluice = createSluice({
    storage: createMemoryBackend({ "report.txt": "as it should be." }),
    baseUri: "files://demo/",
    endpoint,
    keys: "ephemeral",
    onWarning() {},
    ...options,
  } as SluiceOptions);
  const mcp = createMcpHandler(() => sluice.attach(new McpServer({ name: "bad", version: "1" })));
  const handler = withSluice(mcp, sluice);
  const altered: McpFetchHandler = {
    fetch: async (request, context) => alter(await handler.fetch(request, context)),
  };
  server.on("request", toNodeHandler(altered));
  return endpoint;
}

test("bytes that are not the promised ones are not saved", async () => {
  const url = await serveBadly({}, (answer) =>
    answer.headers.has("mcp-resource-uri") ? new Response("as it was, never", answer) : answer,
  );
  const cwd = await mkdtemp(join(root, "target-"));
  const { status, stdout, stderr } = await run(["get", url, "files://demo/report.txt"], { cwd });
  expect(stderr).toMatch(/^sluice: .*SHA-256 is wrong; nothing was saved.*\n$/);
  expect(status).toBe(exitCodes.integrity.status);
  expect(stdout).toBe("");
  expect(await readdir(cwd)).toEqual([]);
});

test.each([
  ["cat", ["cat"], []],
  ["get -o -", ["get"], ["-o", "-"]],
])("%s of bytes that are not the promised ones does not exit with 0", async (_, command, more) => {
  const url = await serveBadly({}, (answer) =>
    answer.headers.has("mcp-resource-uri") ? new Response("as it was, never", answer) : answer,
  );
  const { status, stderr } = await run([...command, url, "files://demo/report.txt", ...more]);
  expect(stderr).toMatch(/^sluice: .*SHA-256 is wrong;.*\n$/);
  expect(status).toBe(exitCodes.integrity.status);
});

test("bytes come from another origin only when it is trusted", async () => {
  const { origin } = await listen((_, response) => response.end("also as it is.."));
  const good = createMemoryBackend({ "report.txt": "as it should be" });
  const url = await serveBadly({
    storage: {
      ...good,
      async presign() {
        return { url: `${origin}/x`, expiresAt: Date.now() + 60_000 };
      },
    },
    delivery: "redirect",
    redirectOrigins: [origin],
  });
  const path = join(root, "redirected");
  const args = ["get", url, "files://demo/report.txt", "-o", path];
  const refused = await run(args);
  expect(refused.status).toBe(exitCodes.refused.status);
  expect(refused.stderr).toMatch(/^sluice: .*--trust.*\n$/);
  expect(existsSync(path)).toBe(false);
  const trusted = await run([...args, "--trust", origin]);
  expect(trusted.stderr).toContain("15 B in");
  expect(trusted.status).toBe(0);
});

test("a server that cannot stream is told from one that is away", async () => {
  const { server, origin } = await listen();
  const mcp = createMcpHandler(() => {
    const plain = new McpServer({ name: "plain", version: "1" });
    plain.registerResource("x", "files://demo/x", {}, async ({ href }) => ({
      contents: [{ uri: href, text: "x" }],
    }));
    return plain;
  });
  server.on("request", toNodeHandler(mcp));
  const { status, stderr } = await run(["get", `${origin}/mcp`, "files://demo/x"], { cwd: root });
  expect(stderr).toMatch(/^http:\S+ does not stream files:\/\/demo\/x: read in one message/);
  expect(status).toBe(0);
});

test("a list that never ends is not followed for ever", async () => {
  const { server, origin } = await listen();
  const mcp = createMcpHandler(() => {
    const endless = new McpServer({ name: "endless", version: "1" });
    endless.registerResource("x", "files://demo/x", {}, async () => ({ contents: [] }));
    endless.server.setRequestHandler("resources/list", () => ({
      resources: [{ uri: "files://demo/\u001b[2Jx", name: "x" }],
      nextCursor: "again",
    }));
    return endless;
  });
  server.on("request", toNodeHandler(mcp));
  const { status, stdout, stderr } = await run(["ls", `${origin}/mcp`]);
  expect(stdout).toBe("files://demo/\\u{1b}[2Jx\n".repeat(2));
  expect(stderr).toMatch(/^sluice: .*same page.*\n$/);
  expect(status).toBe(exitCodes.refused.status);
});

/** A server that answers `initialize`, and everything else as `answer` does. */
async function serveRaw(
  answer: (message: { id: unknown; method: string }) => string | Buffer,
): Promise<string> {
  const { origin } = await listen((req, res) => {
    let text = "";
    req.on("data", (chunk: Buffer) => (text += chunk.toString()));
    req.on("end", () => {
      if (req.method !== "POST") return void res.writeHead(405).end();
      const message = JSON.parse(text) as { id: unknown; method: string };
      if (message.id === undefined) return void res.writeHead(202).end();
      const result = {
        protocolVersion: "2025-06-18",
        capabilities: { resources: {} },
        serverInfo: { name: "raw", version: "0" },
      };
      res.writeHead(200, { "content-type": "application/json" });
      const isFirst = message.method === "initialize";
      return void res.end(
        isFirst ? JSON.stringify({ jsonrpc: "2.0", id: message.id, result }) : answer(message),
      );
    });
  });
  return `${origin}/mcp`;
}

test("an answer of more than 16 MiB is refused, whatever was asked", async () => {
  const url = await serveRaw(
    ({ id }) => `${JSON.stringify({ jsonrpc: "2.0", id, error: {} })}${" ".repeat(2 ** 24)}`,
  );
  const { status, stderr } = await run(["ls", url]);
  expect(status).toBe(exitCodes.refused.status);
  expect(stderr).toMatch(/^sluice: the server's answer has more than 16777216 bytes;.*\n$/);
});
