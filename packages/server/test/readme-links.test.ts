// The code of docs/guides/server/links.md and docs/guides/server/tools.md.
import { createMcpHandler, McpServer, type AuthInfo } from "@modelcontextprotocol/server";
import { formatKey, generateKey } from "@sluice/core";
import { createSluice, type Sluice } from "@sluice/server";
import { createMemoryStores } from "@sluice/state";
import { createMemoryBackend } from "@sluice/storage";
import { expect, test } from "vitest";
import { z } from "zod";
import { bodyOf } from "./redeeming.ts";

const storage = createMemoryBackend({
  "invoices/7.pdf": "%PDF-1.4",
  "notes.txt": "one\ntwo\n",
  "films/7.mp4": "film",
});
const base = {
  storage,
  baseUri: "files://acme/",
  keys: formatKey(generateKey()),
  onWarning: () => {},
};
const endpoint = "https://mcp.example.com/mcp";
const issuer = "https://id.example.com";
const stores = createMemoryStores();
const aliceInfo: AuthInfo = { token: "t", clientId: "app", scopes: [], extra: { sub: "alice" } };

/** Status and text behind a link. */
async function follow(sluice: Sluice, url: string): Promise<[number, string]> {
  const token = url.split("/").at(-1)!;
  const header = () => undefined;
  const reply = await sluice.host.redeem({ kind: "link", method: "GET", token, header });
  return [reply.status, await bodyOf(reply)];
}

/** The result of one request of a client without a session. */
async function ask(createServer: () => McpServer, method: string, params = {}): Promise<any> {
  const parsedBody = { jsonrpc: "2.0", id: 1, method, params };
  const headers = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
  };
  const request = new Request(endpoint, { method: "POST", headers });
  const options = { parsedBody, authInfo: aliceInfo };
  const response = await createMcpHandler(createServer).fetch(request, options);
  return JSON.parse(/^data: ?(\{.*\})$/m.exec(await response.text())![1]!).result;
}

test("the links of the docs", async () => {
  // #region create
  const sluice = createSluice({
    ...base,
    endpoint,
    principal: ({ authInfo }) =>
      authInfo && { issuer, subject: String(authInfo.extra?.sub), clientId: authInfo.clientId },
    stores, // what processes share; with it a link has 32 characters behind /d/
    links: { ttlMs: 10 * 60_000 }, // 10 minutes; the default is 15
  });
  // #endregion

  // #region tool
  function createServer(): McpServer {
    const mcp = new McpServer({ name: "acme", version: "1.0.0" });
    mcp.registerTool(
      "get_invoice",
      {
        description: "Gives the invoice of an order",
        inputSchema: z.object({ order: z.string() }),
      },
      async ({ order }, ctx) => {
        const uri = `files://acme/invoices/${encodeURIComponent(order)}.pdf`;
        const { url, name } = await sluice.link(uri, { mcp, ctx, disposition: "inline" });
        return { content: [{ type: "text", text: `${name}, for ten minutes: ${url}` }] };
      },
    );
    return sluice.attach(mcp, { tools: true });
  }
  // #endregion

  // #region route
  /** `GET /invoices/7` of a web site whose middleware has verified the user's token. */
  async function openInvoice(request: Request, authInfo: AuthInfo): Promise<Response> {
    const order = new URL(request.url).pathname.split("/").at(-1)!;
    const header = (name: string) => request.headers.get(name) ?? undefined;
    const { url } = await sluice.link(`files://acme/invoices/${order}.pdf`, {
      caller: { authInfo, header },
      use: "once",
      ttlMs: 30_000,
    });
    return Response.redirect(url, 303);
  }
  // #endregion

  const called = { name: "get_invoice", arguments: { order: "7" } };
  const { content } = await ask(createServer, "tools/call", called);
  const [, invoice] = /^7\.pdf, for ten minutes: (\S+)$/.exec(content[0].text)!;
  expect(await follow(sluice, invoice!)).toEqual([200, "%PDF-1.4"]);

  const response = await openInvoice(new Request("https://acme.example/invoices/7"), aliceInfo);
  const location = response.headers.get("location")!;
  expect(location).toMatch(/^https:\/\/mcp\.example\.com\/mcp\/d\/[\w-]{32}$/);
  expect(await follow(sluice, location)).toEqual([200, "%PDF-1.4"]);
  expect((await follow(sluice, location))[0]).toBe(404);

  const caller = { authInfo: aliceInfo, header: () => undefined };
  const uri = "files://acme/notes.txt";
  const alice = { issuer, subject: "alice", clientId: "app" };
  const [link, other] = [await sluice.link(uri, { caller }), await sluice.link(uri, { caller })];
  // #region revoke
  await sluice.revoke({ grant: link.id }); // this one
  await sluice.revoke({ principal: alice }); // everything that acts for her, download URLs too
  // #endregion
  for (const { url } of [link, other]) expect((await follow(sluice, url))[0]).toBe(404);
});

test("the links of the docs that live for hours", async () => {
  const caller = { header: () => undefined };
  // #region long
  const sluice = createSluice({
    storage,
    stores,
    links: { maxTtlMs: 3 * 3_600_000 }, // at most 7 days
  });
  const film = await sluice.link("files://local/films/7.mp4", {
    caller,
    disposition: "inline",
    ttlMs: 3 * 3_600_000,
  });
  // #endregion
  expect(film.expiresAt - Date.now()).toBeGreaterThan(10_700_000);
  expect(await follow(sluice, film.url)).toEqual([200, "film"]);
});

test("the tools of the docs", async () => {
  const sluice = createSluice({
    ...base,
    endpoint,
    anonymous: true,
    links: {},
    stores,
  });
  const list = async (createServer: () => McpServer): Promise<string[]> => {
    const { tools } = await ask(createServer, "tools/list");
    return tools.map(({ name }: { name: string }) => name);
  };
  const createServer = () => new McpServer({ name: "acme", version: "1.0.0" });
  const all = () => sluice.attach(createServer(), { tools: true });
  expect(await list(all)).toEqual(["list_files", "read_file", "stat_file", "get_download_link"]);

  function createNamed(): McpServer {
    const mcp = createServer();
    // #region names
    const tools = { list: "list_reports", read: "read_report", stat: false, link: false } as const;
    sluice.attach(mcp, { tools });
    // #endregion
    return mcp;
  }
  expect(await list(createNamed)).toEqual(["list_reports", "read_report"]);
});
