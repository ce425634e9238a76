import {
  createMcpHandler,
  isInitializeRequest,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport as Transport,
  type McpHandlerRequestOptions,
  type McpHttpHandler,
  type McpServer,
} from "@modelcontextprotocol/server";
import { SluiceError } from "@sluice/core";
import {
  createSessionTable,
  readLimits,
  type SessionBounds,
  type SessionEntry,
} from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import { problem, problemOf } from "@sluice/server/internal";
import { defaultMaxBodySize, readJsonBody } from "../endpoint/json-body.ts";
import {
  entryFor,
  mayUse,
  refuseSession,
  type SessionCaller,
  sessionCallerOf,
  sessionNotFound,
  sessionsFull,
  watchEnd,
} from "./session-caller.ts";
import { SharedOpenings, encodeOpening } from "./session-openings.ts";
import { toResponse } from "../endpoint/web-response.ts";
import type { McpFetchHandler } from "../endpoint/sluice-handler.ts";

/** Bounds of the sessions of `createHandler`. */
export interface SessionsOptions {
  /** Maximum sessions of one principal in this process. Default: 32. */
  readonly perPrincipal?: number;
  /** Maximum sessions in this process. Default: 1,000. */
  readonly perProcess?: number;
  /** Milliseconds without a request or an open stream after which a session ends. Default: 30 min. */
  readonly idleMs?: number;
}

/** A handler of both protocol revisions, with sessions in the older one. */
export interface SessionsHandler extends McpFetchHandler {
  /** Ends what this process has of its sessions, their servers and streams. Idempotent. */
  close(): Promise<void>;
}

/**
 * Serves both protocol revisions with one server of `create` for each request of MCP 2026-07-28 and for each
 * session of MCP 2025-11-25 and older.
 *
 * A session belongs to the principal that opened it, as `identify` of the Sluice names it at each request: towards
 * every other caller, and towards none, it does not exist (404 for POST, GET and DELETE). One that was opened without credentials
 * belongs to the first principal that uses it, so that a client can sign in when it is refused; a stream of events that it opened
 * before, in the same process, ends then. It ends by DELETE,
 * after `idleMs`, and at a bound in favour of a new one, the longest idle of the same principal first. In a full process
 * the anonymous, and callers whose bearer token nothing verified, give way to others; when no session is idle, an
 * `initialize` is answered with 503 and `Retry-After`. An `initialize` has at most 16 KiB (413); one that is refused leaves nothing. What is bound to a session that ends
 * here ends with it.
 *
 * Where the state store of the Sluice is shared, sessions are known to every process that shares it: the `initialize`
 * is kept there for 24 h, the longest life of such a session, and a process that does not
 * know it says it once more to a server of its own. What only the other server knew, such as its subscriptions,
 * stays there. Idle time and bounds are then those of a process, which opens the session anew when it is asked for.
 *
 * Throws a `TypeError` for a bound that does not exist, and a `RangeError` for one that is not a whole number from 1.
 */
export function createSessions(
  create: () => McpServer | Promise<McpServer>,
  sluice: Sluice,
  options: SessionsOptions = {},
): SessionsHandler {
  const { host } = sluice;
  const stateless = createStatelessHandler(create, sluice, { legacy: "reject" });
  const shared = host.stores.state.shared ? new SharedOpenings(host.stores.state) : undefined;
  const table = createSessionTable<Promise<Live>>(
    readLimits("createHandler: sessions", options, defaultBounds),
    (entry) => {
      void close(entry);
      // elsewhere it may go on
      if (!shared) sluice.endSession(entry.id).catch(host.onError);
    },
  );
  let isClosed = false;

  async function connect(id: string): Promise<Live> {
    const transport = new Transport({ sessionIdGenerator: () => id });
    const mcp = await create();
    await mcp.connect(transport);
    return { mcp, transport };
  }

  /** A server that could not be made needs no end. */
  function close({ live }: SessionEntry<Promise<Live>>): Promise<void> {
    return live.then(
      ({ mcp }) => mcp.close().catch(host.onError),
      () => {},
    );
  }

  /** Adds a session that is there as soon as its server is; undefined when there is no room. */
  function add(
    caller: SessionCaller,
    id: string,
    start: () => Promise<Live>,
    onClaim?: () => void,
  ) {
    let begin: (() => void) | undefined;
    const opening = new Promise<void>((resolve) => {
      begin = resolve;
    });
    const entry = { ...caller, id, live: opening.then(start) };
    if (isClosed || !table.add(entry)) return undefined;
    const release = table.hold(entry, onClaim);
    begin?.();
    return { entry, release };
  }

  async function open(
    caller: SessionCaller,
    request: Request,
    { message, ...mcpOptions }: McpHandlerRequestOptions & { readonly message: unknown },
  ): Promise<Response> {
    const id = crypto.randomUUID();
    const opening = { message, holder: caller.holder };
    encodeOpening(opening);
    const added = add(caller, id, async () => {
      await shared?.keep(id, opening, caller.owner);
      return connect(id);
    });
    if (!added) return sessionsFull();
    const { entry, release } = added;
    let isOpen = false;
    try {
      const { transport } = await entry.live;
      const response = await transport.handleRequest(request, {
        ...mcpOptions,
        parsedBody: message,
      });
      isOpen = response.ok;
      return watchEnd(response, release);
    } finally {
      if (!isOpen) {
        drop(entry);
        await shared?.forget(id).catch(host.onError);
      }
    }
  }

  function drop(entry: SessionEntry<Promise<Live>>): void {
    table.remove(entry.id);
    void close(entry);
  }

  /** The session with a request under way, if it is the caller's; opened anew where another process opened it. */
  async function take(
    caller: SessionCaller,
    id: string,
    {
      authInfo,
      onClaim,
    }: McpHandlerRequestOptions & { readonly onClaim?: (() => void) | undefined },
  ) {
    const knownSession = table.find(id);
    if (!shared) {
      const entry = knownSession && entryFor(table, knownSession, caller);
      return entry ? { entry, release: table.hold(entry, onClaim) } : sessionNotFound();
    }
    const opening = await shared.find(id);
    if (!opening && knownSession) drop(knownSession);
    if (!opening || !mayUse(opening, caller)) return sessionNotFound();
    const isHeld = opening.holder === caller.holder;
    if (!isHeld && !(await shared.claim(id, caller.holder, caller.owner))) return sessionNotFound();
    // another request may have adopted it meanwhile
    const here = table.find(id);
    const entry = here && entryFor(table, here, caller);
    if (here) return entry ? { entry, release: table.hold(entry, onClaim) } : sessionNotFound();
    const added = add(
      caller,
      id,
      async () => {
        const live = await connect(id);
        await shared.replay(live.transport, { id, opening, authInfo });
        return live;
      },
      onClaim,
    );
    return added ?? sessionsFull();
  }

  async function answer(request: Request, told: McpHandlerRequestOptions): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const caller = await sessionCallerOf(sluice, request, told.authInfo);
    if (id === null) {
      const { parsedBody: message } = told;
      if (!isInitializeRequest(message)) return refuseSession(400, -32_000, noSession);
      return open(caller, request, { ...told, message });
    }
    const claimed = new AbortController();
    const onClaim = request.method === "GET" ? () => claimed.abort() : undefined;
    const lease = await take(caller, id, { ...told, onClaim });
    if ("status" in lease) return lease;
    const { entry, release } = lease;
    try {
      const { transport } = await entry.live.catch((error: unknown) => {
        table.remove(id);
        throw error;
      });
      const response = await transport.handleRequest(request, told);
      if (request.method === "DELETE" && response.ok) {
        drop(entry);
        await shared?.forget(id);
      }
      return watchEnd(response, release, claimed.signal);
    } catch (error) {
      release();
      throw error;
    }
  }

  return {
    async fetch(request, given) {
      const { mcpOptions: told = {}, refusal } = await readJsonBody(
        request,
        given,
        defaultMaxBodySize,
      );
      if (refusal) return refusal;
      const { method } = request;
      const isSession =
        method === "GET" ||
        method === "DELETE" ||
        (method === "POST" && (await isLegacyRequest(request, told.parsedBody)));
      if (!isSession) return stateless.fetch(request, told);
      return answer(request, told).catch((error: unknown) => {
        if (SluiceError.is(error)) {
          if (error.code === "too_large") return toResponse(problem(413, { reason: "too_large" }));
          if (error.code === "throttled" || error.code === "unavailable")
            return toResponse(problemOf(error));
        }
        throw error;
      });
    },
    async close() {
      isClosed = true;
      await Promise.all(table.clear().map(close));
      await stateless.close();
    },
  };
}

interface Live {
  readonly mcp: McpServer;
  readonly transport: Transport;
}

const defaultBounds: SessionBounds = { perPrincipal: 32, perProcess: 1_000, idleMs: 30 * 60_000 };

const noSession = "Bad Request: open a session with initialize, and send its Mcp-Session-Id";

/**
 * The SDK's handler with a new server for each request. Reports a server that could not be made: the SDK only answers 500,
 * and its `onerror` would also report every malformed request.
 */
export function createStatelessHandler(
  create: () => McpServer | Promise<McpServer>,
  { host }: Sluice,
  options?: Parameters<typeof createMcpHandler>[1],
): McpHttpHandler {
  return createMcpHandler(async () => {
    try {
      return await create();
    } catch (error) {
      host.onError(error);
      throw error;
    }
  }, options);
}
