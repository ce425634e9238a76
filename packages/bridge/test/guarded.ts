import { createHash } from "node:crypto";
import { mkdtempSync, rmSync } from "node:fs";
import { createServer, type RequestListener } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Client } from "@modelcontextprotocol/client";
import { toNodeHandler, type NodeIncomingMessageLike } from "@modelcontextprotocol/node";
import { createMcpHandler, Server } from "@modelcontextprotocol/server";
import { createHttpUpstream, type SignInOptions } from "@sluice/bridge";
import { onTestFinished } from "vitest";
import { bridged, createHost } from "./bridged.ts";
import { listen } from "./peers.ts";

/** What differs between guarded servers. */
interface GuardOptions {
  readonly authorizePage?: string;
  /** Scopes that the user gives of those that are asked for. Default: all. */
  readonly grant?: (asked: string) => string;
  /** Scope that a call of a tool needs. Default: `write`. */
  readonly wanted?: () => string;
  /** Status of an answer to a refresh in place of tokens; 0 for none at all. Default: tokens. */
  readonly refreshStatus?: () => number | undefined;
  /** What stands behind the check of tokens. Default: a server of 2026-07-28. */
  readonly handle?: (...args: [...Parameters<RequestListener>, body?: unknown]) => void;
}

/** What was asked of a guarded server. */
interface GuardCounts {
  registrations: number;
  /** Pages that the user saw, by the scopes they asked for. */
  readonly sheets: string[];
  refreshes: number;
  exchanges: number;
  /** Calls of tools that came through. */
  calls: number;
}

/** A server and its authorization server. */
interface Guarded {
  readonly url: URL;
  readonly seen: GuardCounts;
  /** Access tokens that are good, with their scopes. */
  readonly valid: Map<string, string>;
  readonly refresh: Map<string, string>;
  /** Ids of the clients that are registered. */
  readonly clients: Set<string>;
}

/** An authorization server and an MCP server that wants its tokens. */
export async function startGuarded({
  authorizePage,
  grant = (asked) => asked,
  wanted = () => "write",
  refreshStatus = () => undefined,
  handle: behind,
}: GuardOptions = {}): Promise<Guarded> {
  const valid = new Map<string, string>();
  const refresh = new Map<string, string>();
  const codes = new Map<string, { readonly challenge: string; readonly scope: string }>();
  const clients = new Set<string>();
  const seen: GuardCounts = { registrations: 0, sheets: [], refreshes: 0, exchanges: 0, calls: 0 };
  let count = 0;
  const handle = toNodeHandler(
    createMcpHandler(() => {
      const server = new Server({ name: "guarded", version: "1" }, { capabilities: { tools: {} } });
      server.setRequestHandler("tools/list", () => ({ tools: [] }));
      server.setRequestHandler("tools/call", () => {
        seen.calls++;
        return { content: [{ type: "text", text: "done" }] };
      });
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
    const issue = (scope: string): unknown => {
      const tokens = { access_token: `access-${++count}`, refresh_token: `refresh-${count}` };
      valid.set(tokens.access_token, scope);
      refresh.set(tokens.refresh_token, scope);
      return { ...tokens, token_type: "Bearer", ...(scope === "" ? {} : { scope }) };
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
        const id = `client-${++seen.registrations}`;
        clients.add(id);
        json({ ...(JSON.parse(await body()) as object), client_id: id }, 201);
      },
      "/authorize": () => {
        const asked = url.searchParams.get("scope") ?? "";
        seen.sheets.push(asked);
        const code = `code-${++count}`;
        const challenge = url.searchParams.get("code_challenge") ?? "";
        codes.set(code, { challenge, scope: grant(asked) });
        const back = new URL(url.searchParams.get("redirect_uri") ?? "");
        back.searchParams.set("code", code);
        back.searchParams.set("state", url.searchParams.get("state") ?? "");
        response.writeHead(302, { location: back.href }).end();
      },
      "/token": async () => {
        const form = new URLSearchParams(await body());
        if (!clients.has(form.get("client_id") ?? ""))
          return json({ error: "invalid_client" }, 401);
        if (form.get("grant_type") === "refresh_token") {
          seen.refreshes++;
          const status = refreshStatus();
          if (status === 0) return request.socket.destroy();
          if (status !== undefined) return response.writeHead(status).end("busy");
          const given = form.get("refresh_token") ?? "";
          const scope = refresh.get(given);
          if (scope !== undefined && refresh.delete(given)) return json(issue(scope));
          // a token that was used before: the whole login is over (RFC 9700 §4.14.2)
          refresh.clear();
          valid.clear();
          return json({ error: "invalid_grant" }, 400);
        }
        seen.exchanges++;
        const known = codes.get(form.get("code") ?? "");
        const verified = createHash("sha256")
          .update(form.get("code_verifier") ?? "")
          .digest("base64url");
        return known?.challenge === verified
          ? json(issue(known.scope))
          : json({ error: "invalid_grant" }, 400);
      },
      "/mcp": async () => {
        const message = url.pathname === "/messages" ? JSON.parse(await body()) : undefined;
        const token = request.headers.authorization?.replace(/^Bearer /, "") ?? "";
        const metadata = `${base()}/.well-known/oauth-protected-resource/mcp`;
        const scope = valid.get(token);
        const isCall = (message?.method ?? request.headers["mcp-method"]) === "tools/call";
        const needed = isCall ? wanted() : "";
        if (scope !== undefined && isCall && !scope.split(" ").includes(needed)) {
          const challenge = `Bearer error="insufficient_scope", scope="${needed}", resource_metadata="${metadata}"`;
          response.setHeader("www-authenticate", challenge);
          return json({ error: "insufficient_scope" }, 403);
        }
        if (scope !== undefined && behind) return behind(request, response, message);
        if (scope !== undefined)
          return handle(request as NodeIncomingMessageLike & typeof request, response);
        response.setHeader(
          "www-authenticate",
          `Bearer scope="read", resource_metadata="${metadata}"`,
        );
        return json({ error: "invalid_token" }, 401);
      },
    };
    const route = routes[url.pathname === "/messages" ? "/mcp" : url.pathname];
    if (route) void route();
    else json({}, 404);
  });
  const base = (): string => origin;
  let origin = "http://127.0.0.1";
  const { url } = await listen(server);
  origin = url.origin;
  return { url, seen, valid, refresh, clients };
}

/** A folder for tokens that is not there yet. */
export function folderOf(): string {
  const folder = mkdtempSync(join(tmpdir(), "sluice-sign-in-"));
  onTestFinished(() => rmSync(folder, { recursive: true }));
  return join(folder, "state");
}

/** A user who agrees at once. */
export const agree: SignInOptions["openBrowser"] = async (page) => {
  const response = await fetch(page);
  await response.text();
};

/** A host behind whose bridge a user signs in. */
export async function connect(
  url: URL,
  signIn: SignInOptions,
  revision: "legacy" | "modern" = "modern",
): Promise<Client> {
  const client = createHost(revision);
  await client.connect(
    bridged({ upstream: createHttpUpstream({ endpoint: url, signIn }) }).transport,
  );
  return client;
}
