import { createServer, type RequestListener } from "node:http";
import { connect as dial } from "node:net";
import { text } from "node:stream/consumers";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { createFrontHandler } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { listen } from "../bed/listen.ts";
import {
  authenticate,
  kindNames,
  openOwnSite,
  principal,
  type OwnSite,
} from "../bed/own-transports.ts";

type Fields = Record<string, string>;

function post({ url }: Pick<OwnSite, "url">, message: object, headers: Fields = {}) {
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    body: JSON.stringify({ jsonrpc: "2.0", id: 1, ...message }),
  });
}

/** Opens a session; gives the headers of its requests. */
async function open(site: Pick<OwnSite, "url">, headers: Fields = {}): Promise<Fields> {
  const clientInfo = { name: "raw", version: "1" };
  const capabilities = { resourceStreaming: {} };
  const params = { protocolVersion: "2025-11-25", capabilities, clientInfo };
  const opened = await post(site, { method: "initialize", params }, headers);
  await opened.text();
  return { ...headers, "mcp-session-id": opened.headers.get("mcp-session-id")! };
}

describe("a front handler", () => {
  const behindIt: Record<string, RequestListener> = {
    "takes the path out of a URL": (req, res) => {
      const { pathname } = new URL(req.url!, "http://localhost");
      res.statusCode = pathname === "/mcp" ? 200 : 418;
      res.end();
    },
    "takes all below a path for the path": (req, res) => {
      res.statusCode = /^\/mcp(?:\/|$)/i.test(req.url!) ? 200 : 418;
      res.end();
    },
  };

  test.each(Object.keys(behindIt))(
    "leaves nothing that names the endpoint to a router that %s",
    async (router) => {
      let serve: RequestListener = () => {};
      const http = await listen(createServer((req, res) => serve(req, res)));
      onTestFinished(() => http.close());
      const sluice = createSluice({
        storage: createMemoryBackend(),
        baseUri: "files://own/",
        endpoint: `${http.origin}/mcp`,
        keys: "ephemeral",
        onWarning: () => {},
      });
      const front = toNodeHandler(createFrontHandler(sluice));
      serve = (req, res) => front(req, res, () => behindIt[router]!(req, res));
      const ask = async (target: string): Promise<string> => {
        const socket = dial(http.port, "127.0.0.1");
        socket.end(`GET ${target} HTTP/1.1\r\nHost: evil.example\r\nConnection: close\r\n\r\n`);
        return (await text(socket)).slice(9, 12);
      };
      for (const target of [
        "/mcp",
        "/mcp/",
        "/mcp/x",
        "/MCP/x",
        "/mcp//x",
        "/mcp/streams",
        "/%6dcp/x",
        "//host/mcp",
        "///host/mcp",
        "//user@host:80/mcp",
        "//host/mcp/x",
        "/\\host/mcp",
        "/\\host\\mcp",
        "http://host/mcp/x",
      ])
        expect([target, await ask(target)]).toEqual([
          target,
          expect.stringMatching(/^4(?:00|04|21)$/),
        ]);
      for (const target of [
        "/",
        "/mcpx",
        "/x/mcp",
        "/a?b=/mcp",
        "/.well-known/oauth-protected-resource/mcp",
        "//host/x",
      ])
        expect([target, await ask(target)]).toEqual([target, "418"]);
    },
  );

  test("counts no requests of the app's own paths in the limit of an address", async () => {
    await using site = await openOwnSite({
      kind: "McpServer of SDK v1",
      node: { requests: { perAddress: 1 } },
    });
    const waiting: (() => void)[] = [];
    site.app.get("/slow", (_req, res) => void waiting.push(() => res.end("slow")));
    const slow = Array.from({ length: 2 }, () => fetch(new URL("/slow", site.url)));
    await vi.waitFor(() => expect(waiting).toHaveLength(2));
    expect((await open(site))["mcp-session-id"]).toMatch(/^[\w-]{36}$/);
    for (const answer of waiting) answer();
    expect(await Promise.all(slow.map(async (got) => (await got).text()))).toEqual([
      "slow",
      "slow",
    ]);
  });

  test("knows a request by no id that a client sends, also of a request under way", async () => {
    const seen: string[] = [];
    const waiting: (() => void)[] = [];
    await using site = await openOwnSite({
      kind: "McpServer of SDK v1",
      sluice: { principal },
      node: { authenticate },
      register: (mcp) =>
        void mcp.registerTool("see", {}, async (extra: any) => {
          seen.push(extra.requestInfo.headers["sluice-request-id"]);
          await new Promise<void>((resolve) => void waiting.push(resolve));
          return { content: [] };
        }),
    });
    const call = { method: "tools/call", params: { name: "see" } };
    const anns = post(site, call, await open(site, { authorization: "Bearer ann" }));
    await vi.waitFor(() => expect(seen).toHaveLength(1));
    const bob = await open(site, { authorization: "Bearer bob" });
    const bobs = post(site, call, { ...bob, "sluice-request-id": seen[0]! });
    await vi.waitFor(() => expect(seen).toHaveLength(2));
    expect(seen[1]).toMatch(/^[\w-]{36}$/);
    expect(seen[1]).not.toBe(seen[0]);
    for (const answer of waiting) answer();
    for (const answer of await Promise.all([anns, bobs])) await answer.text();
  });
});

describe.each(kindNames)("a %s behind a front handler", (kind) => {
  test.each(["application/json, */*", "*/*"])(
    "streams to a client that accepts %s",
    async (accept) => {
      await using site = await openOwnSite({ kind });
      const session = await open(site);
      const call = { method: "resources/stream", params: { uri: "files://own/a.txt" } };
      const answer = await post(site, call, { ...session, accept });
      expect([answer.status, await answer.text()]).toEqual([200, "hello"]);
      expect(site.errors).toEqual([]);
    },
  );

  test("ends the stream that was opened without credentials when a principal takes the session", async () => {
    await using site = await openOwnSite({ kind, sluice: { principal }, node: { authenticate } });
    const session = await open(site);
    const events = { accept: "text/event-stream" };
    const before = await fetch(site.url, { headers: { ...session, ...events } });
    expect(before.status).toBe(200);
    const ann = { ...session, authorization: "Bearer ann" };
    const listed = await post(site, { method: "resources/list" }, ann);
    expect([listed.status, await before.text()]).toEqual([200, ""]);
    await listed.text();
    const aborted = new AbortController();
    await vi.waitFor(async () => {
      const { signal } = aborted;
      const after = await fetch(site.url, { headers: { ...ann, ...events }, signal });
      expect(after.status).toBe(200);
    });
    aborted.abort();
  });
});
