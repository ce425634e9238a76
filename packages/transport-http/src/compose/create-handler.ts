import type { McpServer } from "@modelcontextprotocol/server";
import { ensureKnownOptions } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import { type Host, problem } from "@sluice/server/internal";
import { type BinaryOptions, withBinary } from "../binary/with-binary.ts";
import { createDownloadRoutes } from "../download/download-route.ts";
import { addRoutes, createRoutedHandler } from "../endpoint/routed-handler.ts";
import { createRouter, type EndpointOptions, type Routes } from "../endpoint/router.ts";
import {
  ensureHandler,
  type McpFetchHandler,
  type SluiceHandler,
} from "../endpoint/sluice-handler.ts";
import { toResponse } from "../endpoint/web-response.ts";
import { filesPageRoutes, type FilesPageOptions } from "../page/files-page.ts";
import {
  createSessions,
  createStatelessHandler,
  type SessionsOptions,
} from "../sessions/sessions.ts";
import { createFrontHandler } from "./front-handler.ts";
import { withSluice, type WithSluiceOptions } from "./with-sluice.ts";

/** Makes an MCP server, for a session or for one request. */
export type CreateServer = () => McpServer | Promise<McpServer>;

/** How to close. */
export interface CloseOptions {
  /** Milliseconds that calls and uploads in progress may still take. Default: 0. */
  readonly deadlineMs?: number;
  /** Ends the wait at once. */
  readonly signal?: AbortSignal;
}

/** What `createResume` of `@sluice/resume` gives. */
export interface ResumeLayer {
  wrap(mcp: McpFetchHandler, sluice: Sluice, endpoint: WithSluiceOptions): McpFetchHandler;
  close(options?: CloseOptions): Promise<void>;
}

/** What `createUploads` of `@sluice/uploads` gives. */
export interface UploadsLayer {
  readonly host: { readonly sluice: Host; routes(base: string): Routes };
  close(options?: CloseOptions): Promise<void>;
}

/** The optional parts of a handler. */
export interface HandlerParts extends WithSluiceOptions {
  /**
   * Bounds of the sessions of MCP 2025-11-25 and older, each with a server of its own. `false`: no sessions, and a new
   * server for every request. Servers can then neither ask nor notify clients of these revisions. Only with `create`.
   */
  readonly sessions?: SessionsOptions | false;
  /** What `createResume` of `@sluice/resume` gave. Default: streams end with their connection. */
  readonly resume?: ResumeLayer;
  /** Lets clients and servers exchange bytes beside JSON, in multipart bodies. `true` for the default limits. Default: `false`. */
  readonly binary?: BinaryOptions | boolean;
  /** What `createUploads` of `@sluice/uploads` gave, for the same Sluice. Default: no uploads. */
  readonly uploads?: UploadsLayer;
  /**
   * Shows the files at the root, `/`, in a browser: each caller sees what it may list. Needs `links` of the Sluice. Default: no page.
   */
  readonly filesPage?: FilesPageOptions | true;
}

/** Options of {@link createHandler}. */
export interface HandlerOptions extends HandlerParts {
  readonly sluice: Sluice;
  /**
   * Makes a server for each session, and for each request without one. Default: no JSON-RPC, for downloads and uploads beside
   * another transport, such as WebSocket.
   */
  readonly create?: CreateServer;
  /**
   * What answers JSON-RPC in place of `create`: a handler of your own over the SDK's transports, or `"app"`, where an app has
   * routes of its own for the endpoint, as the Express examples of both SDKs do. With `"app"` the handler is middleware:
   * `app.use(toNodeHandler(handler))` stands before the routes of the endpoint. It serves downloads, answers `resources/stream`
   * with bytes and redirects, looks at `Host` and `Origin`, and leaves paths outside of the endpoint to the app.
   */
  readonly behind?: McpFetchHandler | "app";
}

/** The handler of a whole server. */
export interface Handler extends SluiceHandler {
  /**
   * Ends sessions, resumable streams and uploads, then closes the Sluice. Call it when the server accepts nothing more; `serve`
   * does all of it. Idempotent.
   */
  close(options?: CloseOptions): Promise<void>;
}

/**
 * Makes the fetch-shaped handler of a whole server: JSON-RPC, `resources/stream`, downloads, links and uploads. `toNodeHandler`
 * puts it on `node:http`; elsewhere call its `fetch`. A browser that opens the endpoint is led to the files page, or else gets a page
 * with the address for clients.
 *
 * ```ts
 * const handler = createHandler({ sluice, create: () => sluice.attach(new McpServer(info)), uploads });
 * createServer(toNodeHandler(handler)).listen(2532);
 * ```
 *
 * Throws a `TypeError` for options that contradict each other, for parts of another Sluice, and for an option that does not exist.
 */
export function createHandler(options: HandlerOptions): Handler {
  const parts = composeParts("createHandler", options);
  return {
    ...parts.handler,
    async close(closing) {
      try {
        await parts.drain(closing);
      } finally {
        await parts.close();
      }
    },
  };
}

/** A handler, and the two steps of its end. */
export interface ComposedParts {
  readonly handler: SluiceHandler;
  /** Lets calls and uploads in progress end until the deadline. */
  drain(options?: CloseOptions): Promise<void>;
  /** Closes what is left, once nothing uses it. */
  close(): Promise<void>;
}

/** Nests the layers of a server, for `createHandler` and `serve`. Messages of errors begin with the caller's name. */
export function composeParts(caller: string, options: HandlerOptions): ComposedParts {
  ensureKnownOptions(caller, options, handlerOptions);
  const {
    sluice,
    create,
    behind,
    sessions,
    resume,
    binary = false,
    uploads,
    filesPage,
    ...endpoint
  } = options;
  if (typeof (sluice as Partial<Sluice> | undefined)?.host?.redeem !== "function")
    throw new TypeError(`${caller}: sluice must be what createSluice gave`);
  if (behind !== undefined && behind !== "app") ensureHandler(`${caller}: behind`, behind);
  if (create && behind) throw new TypeError(`${caller}: pass create or behind, and not both`);
  if (sessions !== undefined && !create)
    throw new TypeError(
      `${caller}: sessions are those of the servers that create makes: pass create`,
    );
  if ((resume || binary) && !create && (!behind || behind === "app"))
    throw new TypeError(`${caller}: resume and binary are for JSON-RPC: pass create`);
  if (uploads && typeof (uploads as Partial<typeof uploads>).host?.routes !== "function")
    throw new TypeError(`${caller}: uploads must be what createUploads gave`);
  if (uploads && uploads.host.sluice !== sluice.host)
    throw new TypeError(
      `${caller}: uploads were made for another Sluice: pass sluice to createUploads`,
    );

  const ownServers = create && serversOf(caller, create, sluice, sessions);
  const mcp = ownServers?.handler ?? behind;
  let handler: SluiceHandler;
  if (mcp === undefined) handler = createSidecar(sluice, endpoint);
  else if (mcp === "app") handler = createFrontHandler(sluice, endpoint);
  else {
    handler = withSluice(resume ? resume.wrap(mcp, sluice, endpoint) : mcp, sluice, endpoint);
    if (binary) handler = withBinary(handler, binary === true ? {} : binary);
  }
  if (uploads) handler = addRoutes(handler, uploads.host.routes(handler.router.base));
  if (filesPage) {
    const { base } = handler.router;
    handler = addRoutes(handler, filesPageRoutes(caller, sluice, { base, filesPage }));
  }
  return {
    handler,
    async drain(closing) {
      await Promise.all([resume?.close(closing), uploads?.close(closing)]);
    },
    async close() {
      try {
        await ownServers?.close();
      } finally {
        await sluice.close();
      }
    },
  };
}

/** The handler over servers that are made for sessions, or for requests. */
function serversOf(
  caller: string,
  create: CreateServer,
  sluice: Sluice,
  sessions: SessionsOptions | false = {},
): { readonly handler: McpFetchHandler; close(): Promise<void> } {
  if (typeof create !== "function")
    throw new TypeError(
      `${caller}: create must be a function that makes a server: () => sluice.attach(new McpServer(…))`,
    );
  const createOwn = async (): Promise<McpServer> => {
    const mcp = await create();
    sluice.host.ensureOwn(mcp);
    return mcp;
  };
  if (sessions) {
    const handler = createSessions(createOwn, sluice, sessions);
    return { handler, close: () => handler.close() };
  }
  return { handler: createStatelessHandler(createOwn, sluice), close: async () => {} };
}

/** Every member of {@link HandlerParts}. */
export const handlerParts: Readonly<Record<keyof HandlerParts, true>> = {
  binary: true,
  filesPage: true,
  hosts: true,
  maxBufferedBytes: true,
  maxRequestBodySize: true,
  origins: true,
  path: true,
  resume: true,
  sessions: true,
  uploads: true,
};

const handlerOptions: Readonly<Record<keyof HandlerOptions, true>> = {
  ...handlerParts,
  behind: true,
  create: true,
  sluice: true,
};

/**
 * Serves download URLs and links alone, and 404 for the rest: for a server whose JSON-RPC goes another
 * way, as over WebSocket. The `endpoint` of the Sluice is then the public URL of this handler.
 * It may run in another process than the server, with the same keys and state store.
 */
export function createSidecar(sluice: Sluice, options: EndpointOptions = {}): SluiceHandler {
  const router = createRouter(sluice, options);
  const routes = createDownloadRoutes(sluice, router.base);
  return createRoutedHandler({ ...router, routes }, async () => toResponse(problem(404)));
}
