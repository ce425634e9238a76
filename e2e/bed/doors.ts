import { Agent, createServer, request, type RequestListener } from "node:http";
import { OAuthError, OAuthErrorCode, type OAuthTokenVerifier } from "@modelcontextprotocol/server";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { createSluice } from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { type McpFetchHandler, type SluiceHandler } from "@sluice/transport-http";
import { withSluice } from "@sluice/transport-http/internal";
import { createUploads } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import { UploadPageStore } from "../../packages/uploads/src/page/upload-pages.ts";
import { listen } from "./listen.ts";

/** Every path that a public URL of the matrix may have. */
export const publicPaths = ["", "/", "/mcp", "/mcp/", "/a/b/mcp", "/m%C3%A9/mcp", "/MCP"] as const;

export const secret = "the content that only the holder of the token may read";
export const token = "correct-horse-battery-staple";
export const holder: Principal = { issuer: "doors", subject: "holder", clientId: "" };

export const verifier: OAuthTokenVerifier = {
  async verifyAccessToken(given) {
    if (given !== token) throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
    return { token: given, clientId: "doors", scopes: [], expiresAt: Date.now() / 1_000 + 3_600 };
  },
};

/** What a host is made of. */
export interface Parts {
  readonly handler: SluiceHandler;
  /** The MCP handler alone. */
  readonly mcp: McpFetchHandler;
  /** Path of the endpoint without a slash at its end. */
  readonly base: string;
  readonly origin: string;
}

/** What came back. */
export interface Answer {
  readonly status: number;
  readonly text: string;
}

/** One request as a client sends it, with a target in any spelling. */
export interface Sent {
  readonly method: string;
  readonly target: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly body?: string | undefined;
  /** Of what stands in front. Default: the server's own. */
  readonly port?: number;
}

/** A server whose doors are tried. */
export interface House extends AsyncDisposable {
  readonly parts: Parts;
  /** How often a tool ran. */
  readonly touched: () => number;
  readonly actions: readonly Action[];
  send(sent: Sent): Promise<Answer>;
}

/** Something that a caller may try, and what the right spelling of its URL answers. */
export interface Action {
  readonly name: string;
  readonly path: string;
  readonly method: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly body?: () => string;
  /** The token in the URL is the credential. */
  readonly isOpen: boolean;
  /** Statuses with the token, or without it where that is not needed. */
  readonly taken: readonly number[];
}

/**
 * Starts a server at a path of a table. `isBlind`: its resolver takes every caller that reaches it for the holder of the
 * token, as a server with a single token may.
 */
export async function openHouse(
  publicPath: string,
  mount: (parts: Parts) => RequestListener | Promise<RequestListener>,
  { isBlind }: { readonly isBlind: boolean },
): Promise<House> {
  let listener: RequestListener | undefined;
  const listening = await listen(createServer((req, res) => listener?.(req, res)));
  const { origin } = listening;
  const sluice = createSluice({
    // thousands of spellings come from one address
    rates: { failedRedemptions: false },
    storage: createMemoryBackend({ "secret.txt": secret }),
    baseUri: "files://doors/",
    endpoint: `${origin}${publicPath}`,
    keys: "ephemeral",
    links: {},
    principal: ({ authInfo }) => (isBlind || authInfo ? holder : undefined),
    onWarning() {},
  });
  const uploads = createUploads(sluice, {
    storage: createMemoryBackend(),
    scan: "none",
    maxBytes: 1_000,
  });
  let touched = 0;
  const mcp = createMcpHandler(() => {
    const server = new McpServer({ name: "doors", version: "1.0.0" });
    server.registerTool("touch", { description: "Counts its calls" }, async () => {
      touched++;
      return { content: [{ type: "text", text: secret }] };
    });
    return sluice.attach(server);
  });
  const handler = withUploads(withSluice(mcp, sluice), uploads);
  const base = new URL(sluice.endpoint.url).pathname.replace(/\/$/, "");
  const parts = { handler, mcp, base, origin };
  listener = await mount(parts);

  const pages = new UploadPageStore(sluice.host);
  const terms = { accept: [], maxBytes: 1_000, maxFiles: 100 };
  const slotPath = async (selfAuthenticating: boolean): Promise<string> => {
    const slot = await uploads.reserve(holder, terms, { ttlMs: 60_000, selfAuthenticating });
    return new URL(slot.url).pathname;
  };
  const question = {
    mode: "binary",
    message: "Which file?",
    requestedSchema: { type: "object", properties: {}, required: [] },
    uploadEndpoints: {},
  } as const;
  const expiresAt = Date.now() + 600_000;
  const pageId = "A".repeat(32);
  const page = new URL(await pages.pageUrl({ pageId, question, expiresAt })).pathname;
  const stream = await streamPath(parts);
  const caller = { header: () => undefined, authInfo: { token, clientId: "doors", scopes: [] } };
  const link = new URL((await sluice.link("files://doors/secret.txt", { caller })).url).pathname;

  const agent = new Agent({ keepAlive: true, maxSockets: 4 });
  const rpc =
    (method: string, params: object): (() => string) =>
    () =>
      JSON.stringify({ jsonrpc: "2.0", id: 1, method, params });
  const json = {
    "content-type": "application/json",
    accept: "application/json, text/event-stream",
    "mcp-protocol-version": "2025-11-25",
  };
  const call = (name: string, method: string, params: object): Action => ({
    name,
    path: base || "/",
    method: "POST",
    headers: json,
    body: rpc(method, params),
    isOpen: false,
    taken: [200],
  });
  const put = (name: string, path: string, isOpen: boolean): Action => ({
    name,
    path,
    method: "PUT",
    headers: { "content-type": "text/plain" },
    body: () => "x",
    isOpen,
    taken: [201],
  });
  return {
    parts,
    touched: () => touched,
    actions: [
      call("list", "resources/list", {}),
      call("read", "resources/read", { uri: "files://doors/secret.txt" }),
      call("tool", "tools/call", { name: "touch", arguments: {} }),
      { name: "page", path: page, method: "GET", isOpen: true, taken: [200] },
      put("slot", await slotPath(true), true),
      put("bound slot", await slotPath(false), false),
      { name: "link", path: link, method: "GET", isOpen: true, taken: [200] },
      { name: "stream", path: stream, method: "GET", isOpen: false, taken: [200] },
    ],
    send: (sent) =>
      new Promise((resolve, reject) => {
        const { method, target, headers, body, port = new URL(origin).port } = sent;
        const outgoing = request({ port, host: "127.0.0.1", agent, method, path: target, headers });
        outgoing.on("response", (response) => {
          let text = "";
          response.setEncoding("utf8").on("data", (chunk: string) => void (text += chunk));
          response.on("end", () => resolve({ status: response.statusCode!, text }));
          response.on("error", reject);
        });
        outgoing.on("error", reject);
        outgoing.end(body);
      }),
    async [Symbol.asyncDispose]() {
      agent.destroy();
      await uploads.close();
      await listening.close();
    },
  };
}

/** A download URL as the holder of the token gets it. */
async function streamPath({ handler, base, origin }: Parts): Promise<string> {
  const terms = { prefer: ["downloadUrl"] };
  const response = await handler.fetch(
    new Request(`${origin}${base || "/"}`, {
      method: "POST",
      headers: {
        "content-type": "application/json",
        accept: "application/json, text/event-stream",
        "mcp-protocol-version": "2025-11-25",
      },
      body: JSON.stringify({
        jsonrpc: "2.0",
        id: 1,
        method: "resources/stream",
        params: {
          uri: "files://doors/secret.txt",
          _meta: {
            "io.modelcontextprotocol/clientCapabilities": {
              resourceStreaming: terms,
              extensions: { "dev.sluice/resource-streaming": terms },
            },
          },
        },
      }),
    }),
    { authInfo: { token, clientId: "doors", scopes: [] } },
  );
  const { result } = (await response.json()) as { result: { downloadUrl: string } };
  return new URL(result.downloadUrl).pathname;
}

/** Spellings of a path that some router takes for it, and the path itself last. */
export function spellings(path: string, base: string, origin: string): string[] {
  const letter = path.search(/[a-zA-Z]/);
  const other = (text: string): string =>
    text === text.toUpperCase() ? text.toLowerCase() : text.toUpperCase();
  const open = `${base}/uploads`;
  const all = [
    `/${path}`,
    `//x${path}`,
    `/.${path}`,
    `/%2e${path}`,
    `/x/..${path}`,
    `/x/%2E%2e${path}`,
    `/x/..%2f${path.slice(1)}`,
    `${open}/..${path}`,
    `${open}/../..${path}`,
    `${open}/%2e%2e${path.slice(base.length)}`,
    `${open}/..%2F..${path}`,
    `${open}\\..${path.slice(base.length)}`,
    `${open}/x/../..${path.slice(base.length)}`,
    `${base}/UPLOADS/..${path.slice(base.length)}`,
    `${base}/upload-page/..${path.slice(base.length)}`,
    `${base}/upload-page/%2e%2e${path.slice(base.length)}`,
    `${path}/`,
    `${path}//`,
    `${path}/.`,
    `${path}/x/..`,
    `${path}%2f`,
    `${path}%20`,
    `${path}%00`,
    `${path};x=1`,
    `${path}#x`,
    `${path}\\`,
    path.replaceAll("/", "\\"),
    path.replaceAll("/", "//"),
    path.replace(/\/(?=[^/]*$)/, "/./"),
    path.replace(/\/(?=[^/]*$)/, "%2f"),
    `${origin}${path}`,
    `http://127.0.0.1${path}`,
    `${origin}${open}/..${path.slice(base.length)}`,
    "*",
    path.slice(1),
    ...(letter < 0
      ? []
      : [
          path.slice(0, letter) + other(path[letter]!) + path.slice(letter + 1),
          `${path.slice(0, letter)}%${path.charCodeAt(letter).toString(16)}${path.slice(letter + 1)}`,
        ]),
  ];
  return [...new Set(all)].filter((target) => target !== path && target !== "");
}

/** A target that let in what it should not, or shut out what it should let in. */
export interface Violation {
  readonly action: string;
  readonly target: string;
  readonly hasToken: boolean;
  readonly status: number;
}

/** The path of the web request that a host makes of this target. */
function resolvedPath(target: string, origin: string): string | undefined {
  const url = target.startsWith("http:") ? target : `${origin}${target}`;
  return URL.canParse(url) ? new URL(url).pathname : undefined;
}

/** What is different about a host. */
export interface Habits {
  /** Its requests are web requests, whose URLs are resolved before anything sees them. */
  readonly isResolved?: boolean;
  /** It verifies no token at upload URLs. */
  readonly opensUploads?: boolean;
}

/**
 * Tries every action at every spelling of its URL, with and without the token. `oneIn`: at one in so many spellings, each
 * action at others.
 */
export async function tryDoors(
  house: House,
  { isResolved = false, opensUploads = false }: Habits = {},
  oneIn = 1,
): Promise<Violation[]> {
  const { actions, parts } = house;
  const violations: Violation[] = [];
  const tryOne = async (action: Action, target: string, hasToken: boolean): Promise<void> => {
    const { name, method, path, isOpen, taken, body } = action;
    const before = house.touched();
    const headers = {
      host: new URL(parts.origin).host,
      ...action.headers,
      ...(hasToken && { authorization: `Bearer ${token}` }),
    };
    const { status, text } = await house.send({ method, target, headers, body: body?.() });
    // curl puts the name of a file behind the slash of a slot
    const paths = name.includes("slot") ? [path, `${path}/`] : [path];
    const isRight = [...paths, `${path}?x=//..`].includes(target);
    const isSame = isResolved && paths.includes(resolvedPath(target, parts.origin) ?? "");
    const mayEnter = (isRight || isSame) && (isOpen || hasToken);
    // what a genuine slot says to a method that its files do not know
    const refused = name.includes("slot") ? [400, 401, 404, 405] : [400, 401, 404];
    const expected = !mayEnter ? refused : isRight ? taken : [...taken, ...refused];
    const hasRun = name === "tool" && house.touched() !== before;
    const hasLeaked = !mayEnter && (text.includes(secret) || hasRun);
    if (!expected.includes(status) || hasLeaked)
      violations.push({ action: name, target, hasToken, status });
  };
  for (const [index, action] of actions.entries())
    for (const hasToken of [false, true]) {
      if (action.name === "bound slot" && hasToken && opensUploads) continue;
      const targets = spellings(action.path, parts.base, parts.origin).filter(
        (_, at) => (at + index) % oneIn === 0,
      );
      // one by one where calls are counted
      const step = action.name === "tool" ? 1 : 4;
      for (let at = 0; at < targets.length; at += step)
        await Promise.all(
          targets.slice(at, at + step).map((target) => tryOne(action, target, hasToken)),
        );
      await tryOne(action, action.path, hasToken);
      await tryOne(action, `${action.path}?x=//..`, hasToken);
    }
  return violations;
}
