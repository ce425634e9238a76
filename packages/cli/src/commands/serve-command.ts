import { once } from "node:events";
import { stat } from "node:fs/promises";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";
import { resolve } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import type { Principal } from "@sluice/core";
import { createSluice, type Sluice } from "@sluice/server";
import { openKeyFile, type AuditFile, type KeyFile } from "@sluice/server/node";
import type { StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { withSluice } from "@sluice/transport-http";
import { drainServer, hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import type { WebSocketHandler } from "@sluice/transport-ws";
import { fault } from "../outcome/failure.ts";
import { isLoopbackHost } from "../serve/loopback.ts";
import { serveLimits } from "../serve/serve-limits.ts";
import { createAuthenticate, tokenCheck } from "../serve/serve-token.ts";
import { note, print } from "../terminal/print.ts";
import { printable } from "../terminal/printable.ts";
import { createRefusalLog, type RefusalLog } from "../serve/refusal-log.ts";
import { createSockets, takeUpgrades, type UpgradeListener } from "../serve/serve-sockets.ts";
import { auditOf, openTrail } from "../serve/serve-trail.ts";
import { createServedUploads, type ServedUploads } from "../serve/serve-uploads.ts";
import { version } from "../terminal/version.ts";

/** Options of `sluice serve`. */
export interface ServeOptions {
  readonly host: string;
  /** 0 takes a free one. */
  readonly port: number;
  /** Base of the resource URIs. */
  readonly uri: string;
  /** Bearer token that every request must carry. */
  readonly token?: string | undefined;
  /** URL of the endpoint as clients see it, where a proxy stands in front. */
  readonly publicUrl?: string | undefined;
  /** Serve to other machines without a token. */
  readonly allowAnonymous?: boolean;
  /** File of keys that seal URLs. Default: keys that end with this process. */
  readonly keys?: string;
  /** File for audit records; `false` for none. Default: one in the user's state folder for each address. */
  readonly audit?: string | false;
  /** Take WebSockets at the endpoint, too. */
  readonly ws?: boolean;
  /** Folder that clients may put files into. */
  readonly uploads?: string;
  /** Largest such file, in bytes. Default: 1 GiB. */
  readonly maxUpload?: number;
  /** Ends the server. */
  readonly signal: AbortSignal;
}

const defaultMaxUpload = 2 ** 30;
const mcpPath = "/mcp";
/** As long as container runtimes wait before they kill. */
const drainMs = 10_000;

/** `sluice serve`: an MCP server over the files of a folder, until `signal`. */
export async function serveCommand(folder: string, options: ServeOptions): Promise<void> {
  const { host, port, signal, token } = options;
  ensureGuarded(options);
  ensureUsed(options);
  await ensureFolder(folder);
  if (options.uploads !== undefined) await ensureFolder(options.uploads);
  const storage = createFsBackend({ root: folder });
  const server = hardenServer(createServer({ connectionsCheckingInterval: 5_000 }));
  server.listen(port, host);
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    const message = `${host}:${port} cannot be listened on (${error.code})`;
    throw fault("unavailable", message, "pass another --host or --port");
  });
  const refusals = createRefusalLog(note);
  let sockets: WebSocketHandler | undefined;
  let uploads: ServedUploads | undefined;
  let trail: AuditFile | undefined;
  let keys: KeyFile | undefined;
  let sluice: Sluice | undefined;
  try {
    server.on("request", answerNotYet);
    // not before: the process that has the address is the only one that writes its trail
    trail = await openTrail({ ...options, port: (server.address() as AddressInfo).port });
    keys = await openKeys(options);
    const wanted = options.publicUrl ?? endpointOf(host, server);
    const served = await createHandlers(storage, wanted, { ...options, trail, keys, refusals });
    ({ sluice, sockets, uploads } = served);
    const endpoint = sluice.endpoint.url;
    server.off("request", answerNotYet);
    server.on("request", served.requests);
    if (served.upgrades) server.on("upgrade", served.upgrades);
    await print(endpoint);
    note(`Serving ${printable(resolve(folder))}${token === undefined ? "" : ", token needed"}`);
    if (trail && options.audit === undefined)
      note(`  audit trail: ${printable(trail.path)}; --no-audit keeps none`);
    note(`  sluice ls ${endpoint}\n  sluice get ${endpoint} ${options.uri}NAME`);
    if (uploads) note(`  sluice put ${endpoint} FILE`);
    note("Ctrl-C ends it.");
    if (!signal.aborted) await once(signal, "abort");
    note("Ending …");
  } catch (error) {
    // what these options cannot be is only known to the library
    if (error instanceof TypeError)
      throw fault("invalid_argument", error.message, "see `sluice help serve`");
    throw error;
  } finally {
    const limit = { deadlineMs: drainMs };
    const [{ cut }] = await Promise.all([
      drainServer(server, limit),
      sockets?.close(limit),
      uploads?.close(limit),
    ]);
    refusals.close();
    if (cut > 0) note(`Cut off: ${cut} that took longer than ${drainMs / 1_000} s`);
    await uploads?.remove();
    await storage.close?.();
    keys?.close();
    await sluice?.close();
    await trail?.close();
  }
}

/** Opens a folder to other machines only where the options say so. */
function ensureGuarded({ host, publicUrl, token, allowAnonymous }: ServeOptions): void {
  const isPrivate =
    isLoopbackHost(host) && (publicUrl === undefined || isLoopbackHost(hostIn(publicUrl)));
  if (isPrivate) return;
  if (token === undefined && !allowAnonymous)
    throw fault(
      "invalid_argument",
      `${host} would open the folder to other machines without authentication`,
      "set SLUICE_TOKEN, or pass --allow-anonymous if every client may read it",
    );
  if (publicUrl === undefined)
    throw fault(
      "invalid_argument",
      `clients of ${host} need an https address: downloads never go over plain http`,
      "pass --public-url with the address of the TLS proxy in front",
    );
}

/** A size without a folder would change nothing. */
function ensureUsed({ uploads, maxUpload }: ServeOptions): void {
  if (maxUpload === undefined || uploads !== undefined) return;
  throw fault(
    "invalid_argument",
    "--max-upload has no effect without --uploads",
    "pass --uploads with the folder that clients may put files into",
  );
}

async function ensureFolder(folder: string): Promise<void> {
  const found = await stat(folder).catch(() => undefined);
  if (!found?.isDirectory())
    throw fault("invalid_argument", `${folder} is no folder`, "name one that exists");
}

function endpointOf(host: string, server: Server): string {
  const { port } = server.address() as AddressInfo;
  return `http://${nameIn(host)}:${port}${mcpPath}`;
}

function hostIn(url: string): string {
  if (URL.canParse(url)) return new URL(url).hostname;
  throw fault(
    "invalid_argument",
    `${url} is no URL`,
    "write it like https://files.example.com/mcp",
  );
}

/** A host as URLs spell it. */
function nameIn(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** What answers requests and, where it is wanted, WebSockets. */
interface Handlers {
  readonly sluice: Sluice;
  readonly requests: RequestListener;
  readonly sockets?: WebSocketHandler;
  readonly upgrades?: UpgradeListener;
  readonly uploads?: ServedUploads;
}

async function createHandlers(
  storage: StorageBackend,
  endpoint: string,
  {
    uri,
    token,
    allowAnonymous = false,
    trail,
    keys,
    ws = false,
    uploads: uploadFolder,
    maxUpload = defaultMaxUpload,
    refusals,
  }: Omit<ServeOptions, "keys"> & {
    trail: AuditFile | undefined;
    keys: KeyFile | undefined;
    refusals: RefusalLog;
  },
): Promise<Handlers> {
  const isToken = token === undefined ? undefined : tokenCheck(token);
  const holder: Principal = { issuer: "sluice serve", subject: "token", clientId: "" };
  const anonymous = allowAnonymous || isLoopbackHost(new URL(endpoint).hostname);
  const sluice = createSluice({
    storage,
    baseUri: uri,
    endpoint,
    keys: keys?.keys ?? "ephemeral",
    onWarning() {}, // about the ephemeral keys: one process whose URLs may die with it is the point
    ...(isToken ? { principal: () => holder } : { anonymous }),
    audit: auditOf(trail),
    limits: serveLimits,
  });
  const uploads =
    uploadFolder === undefined
      ? undefined
      : await createServedUploads(sluice, uploadFolder, maxUpload);
  function create(): McpServer {
    const mcp = sluice.attach(new McpServer({ name: "sluice", version }));
    return uploads?.attach(mcp) ?? mcp;
  }
  const served = withSluice(createMcpHandler(create), sluice);
  const handler = uploads?.wrap(served) ?? served;
  const { url } = sluice.endpoint;
  const sockets = ws ? createSockets(create, url, { isToken, anonymous }) : undefined;
  return {
    sluice,
    requests: toNodeHandler(handler, {
      ...(isToken && { authenticate: createAuthenticate(isToken, refusals) }),
    }),
    ...(sockets && { sockets, upgrades: takeUpgrades(sockets, { isToken, refusals }) }),
    ...(uploads && { uploads }),
  };
}

async function openKeys({ keys: path }: ServeOptions): Promise<KeyFile | undefined> {
  if (path === undefined) return undefined;
  try {
    return await openKeyFile({ path, onError: (error) => note(`sluice: ${messageOf(error)}`) });
  } catch (error) {
    const advice = "make one with `sluice keys new`; it is its owner's alone (chmod 600)";
    throw fault("invalid_argument", messageOf(error), advice);
  }
}

function messageOf(error: unknown): string {
  return printable(error instanceof Error ? error.message : String(error));
}

/** A client that came back at once finds a server that is about to serve. */
function answerNotYet(_request: IncomingMessage, response: ServerResponse): void {
  response.writeHead(503, { "retry-after": "1" }).end();
}
