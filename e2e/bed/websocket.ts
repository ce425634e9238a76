import { createServer } from "node:http";
import { mkdir, mkdtemp, rm, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { Client as ClientV2 } from "@modelcontextprotocol/client";
import { Client as ClientV1 } from "@modelcontextprotocol/sdk/client/index.js";
import { McpServer, OAuthError, OAuthErrorCode, type AuthInfo } from "@modelcontextprotocol/server";
import { streamingCapabilities } from "@sluice/client/internal";
import { generateKey } from "@sluice/core";
import { createSluice, type PrincipalResolver, type SluiceOptions } from "@sluice/server";
import type { OriginGateOptions } from "@sluice/server/internal";
import { createFsBackend } from "@sluice/storage-fs";
import { createSidecar } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import { listenWebSocket, type WebSocketHandlerOptions } from "@sluice/transport-ws";
import {
  createWebSocketTransport,
  type NodeWebSocketTransportOptions,
} from "@sluice/transport-ws/client";
import { listen, type Listening } from "./listen.ts";
import type { SdkName } from "./clients.ts";

/** What a test wants to be different. */
export interface WebSocketSiteOptions {
  /** Key → content. */
  readonly files: Readonly<Record<string, Uint8Array>>;
  readonly sluice?: Partial<SluiceOptions>;
  readonly ws?: Partial<WebSocketHandlerOptions>;
  /** Whose pages may read downloads. */
  readonly sidecar?: OriginGateOptions;
  /** What lies between clients and the sidecar, and has its public address. */
  readonly front?: (target: () => number) => Promise<Listening>;
}

/** A server over WebSocket and, on a listener of its own, its downloads. They share keys and a folder alone. */
export interface WebSocketSite extends AsyncDisposable {
  readonly url: string;
  /** Public origin of the downloads. */
  readonly downloads: string;
  /** A folder for what is downloaded. */
  readonly target: string;
}

/** Every token is that of the user it names, but for "nobody". */
async function verifyAccessToken(token: string): Promise<AuthInfo> {
  if (token === "nobody") throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown");
  const expiresAt = Math.floor(Date.now() / 1_000) + 3_600;
  return { token, clientId: "test", scopes: [], expiresAt, extra: { subject: token } };
}

const principal: PrincipalResolver = ({ authInfo }) =>
  authInfo && {
    issuer: "https://issuer.example",
    subject: String(authInfo.extra?.["subject"]),
    clientId: authInfo.clientId,
  };

export async function startWebSocketSite(options: WebSocketSiteOptions): Promise<WebSocketSite> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-ws-"));
  const root = join(folder, "root");
  const target = join(folder, "target");
  await mkdir(root);
  await mkdir(target);
  for (const [key, content] of Object.entries(options.files))
    await writeFile(join(root, key), content);

  const http = createServer();
  const sidecar = await listen(http);
  const front = await options.front?.(() => sidecar.port);
  const downloads = (front ?? sidecar).origin;
  const keys = [generateKey()];
  // two of everything, as in two processes
  const create = () =>
    createSluice({
      storage: createFsBackend({ root, racyMs: 0 }),
      baseUri: "files://site/",
      endpoint: `${downloads}/bytes`,
      keys,
      principal,
      ...options.sluice,
    } as SluiceOptions);
  const sluice = create();
  const handle = toNodeHandler(createSidecar(create(), options.sidecar));
  http.on("request", (request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const auth = token && { token, clientId: "test", scopes: [], extra: { subject: token } };
    handle(auth ? Object.assign(request, { auth }) : request, response);
  });
  const server = await listenWebSocket(
    () => sluice.attach(new McpServer({ name: "site", version: "1.0.0" })),
    { bearer: { verifier: { verifyAccessToken } }, ...options.ws },
  );
  return {
    url: server.url,
    downloads,
    target,
    async [Symbol.asyncDispose]() {
      await server.close({ deadlineMs: 0 });
      await sidecar.close();
      await front?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}

/** Connects a client of an SDK in the field over WebSocket. */
export async function connectSocket(
  sdk: SdkName,
  url: string,
  options: NodeWebSocketTransportOptions,
): Promise<ClientV2> {
  const info = { name: "test", version: "1.0.0" };
  const capabilities = streamingCapabilities();
  const mode = sdk === "SDK v2, modern" ? "auto" : "legacy";
  const client =
    sdk === "SDK v1"
      ? (new ClientV1(info, { capabilities }) as unknown as ClientV2)
      : new ClientV2(info, { capabilities, versionNegotiation: { mode } });
  await client.connect(createWebSocketTransport(url, options));
  return client;
}
