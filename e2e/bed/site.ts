import { mkdir, mkdtemp, rm, truncate, writeFile } from "node:fs/promises";
import { createServer } from "node:http";
import { createServer as createTlsServer } from "node:https";
import { tmpdir } from "node:os";
import { dirname, join } from "node:path";
import { createMcpHandler, McpServer } from "@modelcontextprotocol/server";
import { generateKey } from "@sluice/core";
import {
  createSluice,
  type AttachOptions,
  type MountOptions,
  type PrincipalResolver,
  type Sluice,
  type SluiceOptions,
} from "@sluice/server";
import { createMemoryBackend, type StorageBackend } from "@sluice/storage";
import { createFsBackend } from "@sluice/storage-fs";
import { createSessions, withSluice } from "@sluice/transport-http/internal";
import { toNodeHandler, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { createUploads, type Uploads, type UploadsOptions } from "@sluice/uploads";
import { withUploads } from "@sluice/uploads/internal";
import type { Certificate } from "./certificate.ts";
import { listen, type Listening } from "./listen.ts";

/** The user of a bearer token. */
export interface Account {
  readonly subject: string;
  readonly scopes?: readonly string[];
  /** When the token ends, unix seconds. */
  readonly expiresAt?: number;
}

/** What a test wants to be different from the plain case. */
export interface SiteOptions {
  /** Key → content. */
  readonly files?: Readonly<Record<string, Uint8Array | string>>;
  /** Key → size in bytes of a file of zeros that takes no room on disk. */
  readonly sparse?: Readonly<Record<string, number>>;
  readonly tls?: Certificate;
  /** A folder to serve as it is, which stays. */
  readonly root?: string;
  /** Token → account. With accounts, a request without a known token is anonymous. */
  readonly accounts?: Readonly<Record<string, Account>>;
  /** What lies between clients and the server, and has the address that clients use. */
  readonly front?: (target: () => number, root: string) => Promise<Listening>;
  readonly node?: (root: string) => NodeHandlerOptions;
  readonly storage?: (files: StorageBackend) => StorageBackend | Promise<StorageBackend>;
  /** Several storages, in place of the one below `baseUri`. */
  readonly mounts?: (files: StorageBackend) => readonly MountOptions[];
  /** What the author of the server registers beside Sluice. */
  readonly author?: (mcp: McpServer, sluice: Sluice) => void;
  /** Registers tools that ask for files; the site then has an upload endpoint. */
  readonly asking?: (mcp: McpServer, uploads: Uploads, sluice: Sluice) => void;
  /** What is different from unscanned files in memory. */
  readonly uploads?: Partial<UploadsOptions>;
  readonly attach?: AttachOptions;
  /** Legacy clients get a session. */
  readonly sessions?: boolean;
  readonly sluice?: Partial<SluiceOptions> | (() => Partial<SluiceOptions>);
  /** The default limit for URLs that give nothing is in force. */
  readonly limitsGuesses?: boolean;
}

/** A running server over a folder of its own. */
export interface Site extends AsyncDisposable {
  /** Of the MCP endpoint. */
  readonly url: string;
  /** Of the server itself, behind whatever is in front. */
  readonly port: number;
  readonly origin: string;
  /** The folder. */
  readonly root: string;
  /** A second folder, for downloads. */
  readonly target: string;
  /** Where files of users are kept. */
  readonly received: StorageBackend;
  readonly sluice: Sluice;
}

export const baseUri = "files://site/";

const principalOf: PrincipalResolver = ({ authInfo }) =>
  authInfo && {
    issuer: "https://issuer.example",
    subject: String(authInfo.extra?.["subject"]),
    clientId: authInfo.clientId,
  };

export async function startSite(options: SiteOptions = {}): Promise<Site> {
  const folder = await mkdtemp(join(tmpdir(), "sluice-site-"));
  const root = options.root ?? join(folder, "root");
  const target = join(folder, "target");
  await mkdir(root, { recursive: true });
  await mkdir(target);
  for (const [key, content] of Object.entries(options.files ?? {})) {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await writeFile(join(root, key), content);
  }

  for (const [key, size] of Object.entries(options.sparse ?? {})) {
    await mkdir(dirname(join(root, key)), { recursive: true });
    await writeFile(join(root, key), "");
    await truncate(join(root, key), size);
  }

  const server = options.tls ? createTlsServer(options.tls) : createServer();
  const listening = await listen(server);
  const { port } = listening;
  const front = await options.front?.(() => port, root);
  const { origin } = front ?? listening;
  const url = `${origin}/mcp`;

  const files = createFsBackend({ root, racyMs: 0 });
  const storage = (await options.storage?.(files)) ?? files;
  const own = typeof options.sluice === "function" ? options.sluice() : options.sluice;
  const sluice = createSluice({
    ...(options.mounts ? { mounts: options.mounts(storage) } : { storage, baseUri }),
    endpoint: url,
    keys: [generateKey()],
    ...(options.accounts && { principal: principalOf }),
    ...own,
    // all come from one address, and tests are about why each of them is refused
    rates: { ...(options.limitsGuesses ? {} : { failedRedemptions: false }), ...own?.rates },
  } as SluiceOptions);
  const { storage: received = createMemoryBackend(), ...uploadsOptions } = options.uploads ?? {};
  const uploads =
    options.asking && createUploads(sluice, { storage: received, scan: "none", ...uploadsOptions });
  const factory = () => {
    const mcp = new McpServer({ name: "site", version: "1.0.0" });
    options.author?.(mcp, sluice);
    if (uploads) options.asking?.(mcp, uploads, sluice);
    return sluice.attach(mcp, options.attach);
  };
  const mcp = options.sessions ? createSessions(factory, sluice) : createMcpHandler(factory);
  const handler = withSluice(mcp, sluice);
  const handle = toNodeHandler(
    uploads ? withUploads(handler, uploads) : handler,
    options.node?.(root),
  );
  server.on("request", (request, response) => {
    const token = /^Bearer (.+)$/.exec(request.headers.authorization ?? "")?.[1];
    const account = token === undefined ? undefined : options.accounts?.[token];
    if (token !== undefined && account)
      Object.assign(request, {
        auth: {
          token,
          clientId: "test",
          scopes: account.scopes ?? [],
          expiresAt: account.expiresAt,
          extra: { subject: account.subject },
        },
      });
    handle(request, response);
  });

  return {
    url,
    port,
    origin,
    root,
    target,
    received,
    sluice,
    async [Symbol.asyncDispose]() {
      await uploads?.close();
      await mcp.close();
      await listening.close();
      await front?.close();
      await rm(folder, { recursive: true, force: true });
    },
  };
}
