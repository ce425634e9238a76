import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { createMcpHandler, McpServer, type AuthInfo } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import {
  createSluice,
  type AttachOptions,
  type PrincipalResolver,
  type SluiceOptions,
} from "@sluice/server";
import { createMemoryBackend } from "@sluice/storage";
import { withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler } from "@sluice/transport-http/node";
import {
  createWebSocketHandler,
  type WebSocketHandler,
  type WebSocketHandlerOptions,
} from "@sluice/transport-ws";
import { onTestFinished } from "vitest";

/** Options of a test. */
export interface ServeOptions {
  readonly files?: Readonly<Record<string, Uint8Array | string>>;
  readonly sluice?: Partial<SluiceOptions>;
  readonly ws?: Partial<WebSocketHandlerOptions>;
  readonly attach?: AttachOptions;
  readonly register?: (mcp: McpServer) => void;
  /** The whole server, when another one is wanted. */
  readonly create?: () => McpServer | Promise<McpServer>;
}

/** A server with MCP over WebSocket and HTTP, and downloads. */
export interface Served {
  /** `ws://127.0.0.1:<port>/mcp`. */
  readonly url: string;
  readonly port: number;
  readonly handler: WebSocketHandler;
  readonly http: Server;
  readonly errors: unknown[];
}

export const uri = "files://demo/a.bin";
export const bytes: Buffer = Buffer.alloc(300_000, "0123456789");

/** Accounts of tests: the token is the name of the subject. */
export const principal: PrincipalResolver = ({ authInfo }) =>
  authInfo && {
    issuer: "https://issuer.example",
    subject: String(authInfo.extra?.["sub"]),
    clientId: authInfo.clientId,
  };

/** Verifies every token but "wrong", for an hour. */
export const bearer = {
  verifier: {
    async verifyAccessToken(token: string): Promise<AuthInfo> {
      const { OAuthError, OAuthErrorCode } = await import("@modelcontextprotocol/server");
      if (token === "wrong") throw new OAuthError(OAuthErrorCode.InvalidToken, "unknown token");
      const expiresAt = Math.floor(Date.now() / 1_000) + 3_600;
      return { token, clientId: "app", scopes: [], expiresAt, extra: { sub: token } };
    },
  },
};

/** Starts one; it is closed when the test ends. */
export async function serve(options: ServeOptions = {}): Promise<Served> {
  const http = createServer();
  await new Promise<void>((resolve) => http.listen(0, "127.0.0.1", resolve));
  const { port } = http.address() as AddressInfo;
  const errors: unknown[] = [];
  const onError = (error: unknown): void => void errors.push(error);
  const sluice = createSluice({
    storage: createMemoryBackend({ "a.bin": bytes, ...options.files }),
    baseUri: "files://demo/",
    endpoint: `http://127.0.0.1:${port}/mcp`,
    keys: [generateKey()],
    onError,
    onWarning: () => {},
    ...options.sluice,
  } as SluiceOptions);
  const factory = (): McpServer | Promise<McpServer> => {
    if (options.create) return options.create();
    const mcp = new McpServer({ name: "test", version: "1.0.0" });
    options.register?.(mcp);
    return sluice.attach(mcp, options.attach);
  };
  const handler = createWebSocketHandler(factory, {
    url: `ws://127.0.0.1:${port}/mcp`,
    sluice,
    onError,
    ...options.ws,
  });
  const verify = toNodeHandler(withSluice(createMcpHandler(factory), sluice), { onError });
  http.on("request", (request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const answer = (): void => verify(request, response);
    if (token === undefined || !options.ws?.bearer) return answer();
    const verified = async (): Promise<void> => {
      const auth = await bearer.verifier.verifyAccessToken(token);
      Object.assign(request, { auth });
      answer();
    };
    void verified();
  });
  http.on("upgrade", (request, socket, head) => {
    if (!handler.upgrade(request, socket, head)) socket.destroy();
  });
  onTestFinished(async () => {
    await handler.close({ deadlineMs: 0 });
    http.closeAllConnections();
    await new Promise((resolve) => http.close(resolve));
  });
  return { url: `ws://127.0.0.1:${port}/mcp`, port, handler, http, errors };
}
