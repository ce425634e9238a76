import { randomUUID } from "node:crypto";
import type { AddressInfo } from "node:net";
import { NodeStreamableHTTPServerTransport as TransportV2 } from "@modelcontextprotocol/node";
import { createMcpExpressApp } from "@modelcontextprotocol/sdk/server/express.js";
import { Server as LowServerV1 } from "@modelcontextprotocol/sdk/server/index.js";
import { McpServer as McpServerV1 } from "@modelcontextprotocol/sdk/server/mcp.js";
import { StreamableHTTPServerTransport as TransportV1 } from "@modelcontextprotocol/sdk/server/streamableHttp.js";
import { isInitializeRequest } from "@modelcontextprotocol/sdk/types.js";
import { McpServer as McpServerV2 } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import {
  createSluice,
  type AttachOptions,
  type PrincipalResolver,
  type Sluice,
  type SluiceOptions,
} from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { type SluiceHandler } from "@sluice/transport-http";
import { createFrontHandler } from "@sluice/transport-http/internal";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import type { Express, Request, Response } from "express";

type Transport = Pick<TransportV1, "sessionId" | "handleRequest" | "close"> & {
  onclose?: (() => void) | undefined;
};

interface TransportSettings {
  readonly sessionIdGenerator: (() => string) | undefined;
  readonly onsessioninitialized?: (id: string) => void;
  readonly enableJsonResponse?: boolean;
}

/** A server of an official SDK, and the transport that belongs to it. */
interface Kind<Mcp> {
  readonly create: () => Mcp;
  readonly connect: (mcp: Mcp, settings: TransportSettings) => Promise<Transport>;
}

const info = { name: "own", version: "1.0.0" };

async function connectV1(
  mcp: McpServerV1 | LowServerV1,
  settings: TransportSettings,
): Promise<Transport> {
  const transport = new TransportV1(settings as ConstructorParameters<typeof TransportV1>[0]);
  await mcp.connect(transport);
  return transport;
}

export const kinds = {
  "McpServer of SDK v1": { create: () => new McpServerV1(info), connect: connectV1 },
  "low-level Server of SDK v1": {
    create: () => new LowServerV1(info, { capabilities: {} }),
    connect: connectV1,
  },
  "McpServer of SDK v2": {
    create: () => new McpServerV2(info),
    async connect(mcp: McpServerV2, settings: TransportSettings) {
      const transport = new TransportV2(settings);
      await mcp.connect(transport);
      return transport;
    },
  },
} satisfies Record<string, Kind<any>>;

export type KindName = keyof typeof kinds;
export const kindNames = Object.keys(kinds) as KindName[];
/** The calls of the tests are the same in all of them, their types are not. */
export type OwnServer = McpServerV1;

/** Each bearer token is the name of its subject. */
export const principal: PrincipalResolver = ({ authInfo }) =>
  authInfo && { issuer: "own", subject: authInfo.token, clientId: "" };
export const authenticate: NonNullable<NodeHandlerOptions["authenticate"]> = (req, _res, next) => {
  const token = /^Bearer (\w+)$/.exec(req.headers.authorization ?? "")?.[1];
  if (token !== undefined) req.auth = { token, clientId: "", scopes: [] };
  next();
};

/** What a test sets. */
export interface OwnOptions {
  readonly kind: KindName;
  readonly storage?: StorageBackend;
  readonly isStateless?: boolean;
  readonly sluice?: Partial<SluiceOptions>;
  readonly attach?: AttachOptions;
  readonly settings?: Pick<TransportSettings, "enableJsonResponse">;
  readonly node?: NodeHandlerOptions;
  /** Called with each server before it is attached. */
  readonly register?: (mcp: OwnServer, sluice: Sluice) => void;
  /** Called with the app before the routes of the endpoint, in place of the one line. */
  readonly mount?: (app: Express, handler: SluiceHandler, sluice: Sluice) => void;
}

/** An app as the Express examples of the SDKs write it: with a transport for each session, or for each request. */
export interface OwnSite extends AsyncDisposable {
  readonly url: string;
  readonly app: Express;
  readonly sluice: Sluice;
  readonly errors: unknown[];
  /** Sessions whose transport the app has. */
  readonly sessions: () => number;
}

export async function openOwnSite(options: OwnOptions): Promise<OwnSite> {
  const { create, connect } = kinds[options.kind] as unknown as Kind<OwnServer>;
  const app = createMcpExpressApp();
  const listening = app.listen(0, "127.0.0.1");
  await new Promise((resolve) => void listening.once("listening", resolve));
  const url = `http://127.0.0.1:${(listening.address() as AddressInfo).port}/mcp`;
  const errors: unknown[] = [];
  const sluice = createSluice({
    storage: options.storage ?? createMemoryBackend({ "a.txt": "hello" }),
    baseUri: "files://own/",
    endpoint: url,
    keys: [generateKey()],
    onWarning: () => {},
    onError: (error) => void errors.push(error),
    ...options.sluice,
  } as SluiceOptions);
  const getServer = (): OwnServer => {
    const mcp = create();
    options.register?.(mcp, sluice);
    return sluice.attach(mcp, options.attach);
  };

  const handler = createFrontHandler(sluice);
  if (options.mount) options.mount(app, handler, sluice);
  else
    app.use(
      toNodeHandler(handler, { onError: (error) => void errors.push(error), ...options.node }),
    );

  const transports: Record<string, Transport> = {};
  const post = async (req: Request, res: Response): Promise<void> => {
    const sessionId = req.headers["mcp-session-id"] as string | undefined;
    let transport: Transport;
    if (sessionId && transports[sessionId]) transport = transports[sessionId];
    else if (!sessionId && isInitializeRequest(req.body)) {
      transport = await connect(getServer(), {
        sessionIdGenerator: () => randomUUID(),
        onsessioninitialized: (id) => void (transports[id] = transport),
        ...options.settings,
      });
      const closed = transport.onclose;
      // oxlint-disable-next-line unicorn/prefer-add-event-listener -- transports of the SDK have properties only
      transport.onclose = () => {
        delete transports[transport.sessionId!];
        closed?.();
      };
    } else {
      res.status(400).json({
        jsonrpc: "2.0",
        error: { code: -32000, message: "Bad Request: No valid session ID provided" },
        id: null,
      });
      return;
    }
    await transport.handleRequest(req, res, req.body);
  };
  const stateless = async (req: Request, res: Response): Promise<void> => {
    const mcp = getServer();
    const transport = await connect(mcp, { sessionIdGenerator: undefined, ...options.settings });
    await transport.handleRequest(req, res, req.body);
    res.on("close", () => void transport.close());
  };
  const other = async (req: Request, res: Response): Promise<void> => {
    const transport = transports[req.headers["mcp-session-id"] as string];
    if (!transport) return void res.status(400).send("Invalid or missing session ID");
    await transport.handleRequest(req, res);
  };
  app.post("/mcp", options.isStateless ? stateless : post);
  if (!options.isStateless) {
    app.get("/mcp", other);
    app.delete("/mcp", other);
  }
  app.get("/health", (_req, res) => void res.json({ status: "ok" }));

  return {
    url,
    app,
    sluice,
    errors,
    sessions: () => Object.keys(transports).length,
    async [Symbol.asyncDispose]() {
      for (const transport of Object.values(transports)) await transport.close();
      listening.closeAllConnections();
      await new Promise((resolve) => listening.close(resolve));
    },
  };
}
