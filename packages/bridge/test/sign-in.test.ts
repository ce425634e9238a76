import { createHash } from "node:crypto";
import { mkdtempSync, readdirSync, readFileSync, rmSync, statSync } from "node:fs";
import { createServer } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { createHttpUpstream, type SignInOptions } from "@sluice/bridge";
import { expect, onTestFinished, test } from "vitest";
import { bridged, createHost, rawHost } from "./bridged.ts";
import { listen } from "./peers.ts";

/** An authorization server and an MCP server that wants its tokens. */
async function startGuarded(authorizePage?: string) {
  const valid = new Set<string>();
  const refresh = new Set<string>();
  const codes = new Map<string, string>();
  const seen = { registrations: 0, sheets: 0, refreshes: 0, exchanges: 0 };
  let count = 0;
  const handle = toNodeHandler(
    createMcpHandler(() => {
      const server = new Server({ name: "guarded", version: "1" }, { capabilities: { tools: {} } });
      server.setRequestHandler("tools/list", () => ({ tools: [] }));
      return server;
    }),
  );
  const server = createServer((request, response) => {
    const url = new URL(request.url ?? "/", base());
    const json = (value: unknown, status = 200): void => {
      response.writeHead(status, { "content-type": "application/json" });
      response.end(JSON.stringify(value));
    };
    const body = async (): Promise<string> => {
      let text = "";
      for await (const chunk of request) text += String(chunk);
      return text;
    };
    const issue = (): unknown => {
      const tokens = { access_token: `access-${++count}`, refresh_token: `refresh-${count}` };
      valid.add(tokens.access_token);
      refresh.add(tokens.refresh_token);
      return { ...tokens, token_type: "Bearer" };
    };
    const routes: Record<string, () => unknown> = {
      "/.well-known/oauth-protected-resource/mcp": () =>
        json({ resource: `${base()}/mcp`, authorization_servers: [base()] }),
      "/.well-known/oauth-authorization-server": () =>
        json({
          issuer: base(),
          authorization_endpoint: authorizePage ?? `${base()}/authorize`,
          token_endpoint: `${base()}/token`,
          registration_endpoint: `${base()}/register`,
          response_types_supported: ["code"],
          code_challenge_methods_supported: ["S256"],
          token_endpoint_auth_methods_supported: ["none"],
        }),
      "/register": async () => {
        seen.registrations++;
        json({ ...(JSON.parse(await body()) as object), client_id: "client" }, 201);
      },
      "/authorize": () => {
        seen.sheets++;
        const code = `code-${++count}`;
        codes.set(code, url.searchParams.get("code_challenge") ?? "");
        const back = new URL(url.searchParams.get("redirect_uri") ?? "");
        back.searchParams.set("code", code);
        back.searchParams.set("state", url.searchParams.get("state") ?? "");
        response.writeHead(302, { location: back.href }).end();
      },
      "/token": async () => {
        const form = new URLSearchParams(await body());
        if (form.get("grant_type") === "refresh_token") {
          seen.refreshes++;
          const given = form.get("refresh_token") ?? "";
          return refresh.delete(given) ? json(issue()) : json({ error: "invalid_grant" }, 400);
        }
        seen.exchanges++;
        const challenge = codes.get(form.get("code") ?? "");
        const verified = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        return challenge === verified ? json(issue()) : json({ error: "invalid_grant" }, 400);
      },
      "/mcp": () => {
        const token = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
        if (valid.has(token))
          return handle(request as NodeIncomingMessageLike & typeof request, response);
        const metadata = `${base()}/.well-known/oauth-protected-resource/mcp`;
        response.setHeader("www-authenticate", `Bearer resource_metadata="${metadata}"`);
        return json({ error: "invalid_token" }, 401);
      },
    };
    const route = routes[url.pathname];
    if (route) void route();
    else json({}, 404);
  });
  const base = (): string => origin;
  let origin = "http://127.0.0.1";
  const { url } = await listen(server);
  origin = url.origin;
  return { url, seen, valid };
}

function folderOf(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-sign-in-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, "state");
}

/** A user who agrees at once. */
const agree: SignInOptions["openBrowser"] = async (page) => {
  const response = await fetch(page);
  await response.text();
};

async function connect(url: URL, signIn: SignInOptions) {
  const client = createHost("modern");
  await client.connect(bridged({ upstream: createHttpUpstream({ url, signIn }) }).transport);
  return client;
}

test("a user signs in once; tokens are kept for their owner only and refreshed", async () => {
  const { url, seen, valid } = await startGuarded();
  const folder = folderOf();
  const first = await connect(url, { folder, openBrowser: agree });
  expect((await first.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ registrations: 1, sheets: 1, exchanges: 1, refreshes: 0 });
  const [file] = readdirSync(folder);
  expect(statSync(join(folder, file!)).mode & 0o777).toBe(0o600);
  expect(statSync(folder).mode & 0o777).toBe(0o700);
  expect(readFileSync(join(folder, file!), "utf8")).toContain("access-");

  // another run needs no browser
  const fail = (): never => {
    throw new Error("no browser");
  };
  const second = await connect(url, { folder, openBrowser: fail });
  expect((await second.listTools()).tools).toEqual([]);
  // nor does a token that is over
  valid.clear();
  expect((await second.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ registrations: 1, sheets: 1, refreshes: 1 });
  // the first one finds the new token
  expect((await first.listTools()).tools).toEqual([]);
  expect(seen).toMatchObject({ registrations: 1, sheets: 1, refreshes: 1 });
});

test("bridges that start together ask the user once", async () => {
  const { url, seen } = await startGuarded();
  const folder = folderOf();
  const bridges = await Promise.all(
    Array.from({ length: 4 }, () => connect(url, { folder, openBrowser: agree })),
  );
  await Promise.all(bridges.map((client) => client.listTools()));
  expect(seen).toMatchObject({ registrations: 1, sheets: 1, exchanges: 1 });
});

test("an answer with another state is not taken", async () => {
  const { url, seen } = await startGuarded();
  const statuses: number[] = [];
  const client = await connect(url, {
    folder: folderOf(),
    openBrowser: async (page) => {
      const forged = new URL(page.searchParams.get("redirect_uri")!);
      forged.search = "?code=forged&state=forged";
      statuses.push((await fetch(forged)).status);
      await agree(page);
    },
  });
  expect((await client.listTools()).tools).toEqual([]);
  expect(statuses).toEqual([400]);
  expect(seen.exchanges).toBe(1);
});

test("a user who does not sign in is an error that says so", async () => {
  const { url } = await startGuarded();
  const signIn = { folder: folderOf(), openBrowser: () => {}, userMs: 100 };
  const host = await rawHost(bridged({ upstream: createHttpUpstream({ url, signIn }) }).transport);
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect
    .poll(() => host.got)
    .toMatchObject([{ id: 1, error: { message: expect.stringContaining("did not sign in") } }]);
});

test("a page to sign in at that is no web page is not opened", async () => {
  const { url } = await startGuarded("calculator:start");
  let opened = 0;
  const signIn = { folder: folderOf(), openBrowser: () => void opened++, userMs: 100 };
  const host = await rawHost(bridged({ upstream: createHttpUpstream({ url, signIn }) }).transport);
  await host.send({ id: 1, method: "initialize", params: { protocolVersion: "2025-11-25" } });
  await expect.poll(() => host.got).toMatchObject([{ id: 1, error: { code: -32_000 } }]);
  expect(opened).toBe(0);
});

test("with a token of its own, the bridge asks no user", async () => {
  const { url, seen, valid } = await startGuarded();
  valid.add("mine");
  const client = createHost("modern");
  const upstream = createHttpUpstream({
    url,
    token: "mine",
    signIn: { folder: folderOf(), openBrowser: agree },
  });
  await client.connect(bridged({ upstream }).transport);
  expect((await client.listTools()).tools).toEqual([]);
  expect(seen.sheets).toBe(0);
});
