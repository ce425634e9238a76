import { randomUUID } from "node:crypto";
import {
  isJsonContentType,
  isLegacyRequest,
  readRequestBody,
  type AuthInfo,
  type JSONRPCRequest,
  type McpHandlerRequestOptions,
  createMcpHandler,
  isInitializeRequest,
} from "@modelcontextprotocol/server";
import {
  createSessionTable,
  isRequest,
  readJson,
  readLimits,
  type SessionTable,
} from "@sluice/core/internal";
import type { BridgeLimits } from "../messages/limits.ts";
import { type HostFacts, type HostParts, type OpenServer, RunningBridge } from "./host-session.ts";
import {
  bridgeEnds,
  refuseRequest,
  serverNotOpened,
  sessionNotFound,
  sessionsFull,
} from "./http-refusal.ts";
import { RequestBridges } from "./request-bridges.ts";
import { SessionHost } from "./session-host.ts";
import { wordsOf } from "../messages/error-words.ts";

/** Options of {@link createHttpHosts}. */
export interface HttpHostsOptions {
  /** Opens what stands behind one session: a connection or a process for it alone, and its hooks. */
  readonly open: OpenServer;
  /**
   * Names the caller of a request. Sessions and connections to the server belong to one caller; all requests of an
   * equal name count as those of one user. Default: its verified token, else its `Authorization` field.
   */
  readonly caller?: (request: Request, authInfo: AuthInfo | undefined) => string;
  /**
   * Bounds of the sessions, and of connections for hosts without sessions, together: how many there are at once, by default
   * 1,000, and milliseconds without a request or an open stream after which one ends, by default 30 min.
   */
  readonly sessions?: { readonly perProcess?: number; readonly idleMs?: number };
  /** Largest JSON of a request, in bytes; more is answered with 413. Default: 32 MiB. */
  readonly maxRequestBodySize?: number;
  /** Bounds and deadlines of each session. Default: those of {@link BridgeLimits}, with 100 open calls. */
  readonly limits?: Partial<BridgeLimits>;
  /** Receives log lines, such as "server unreachable". Default: they are dropped. */
  readonly onNote?: (line: string) => void;
}

/** A handler of hosts of both revisions. It checks neither tokens nor `Host` and `Origin`: what is in front does. */
export interface HttpHosts {
  fetch(request: Request, options?: McpHandlerRequestOptions): Promise<Response>;
  readonly maxRequestBodySize: number;
  /** Ends all sessions, and waits until what stands behind them is closed. */
  close(): Promise<void>;
}

/**
 * Makes a bridge that hosts reach over Streamable HTTP. A host of 2025-11-25 or older has a session, with a connection
 * or process of its own behind it. A request of 2026-07-28 has one for itself while it is open; the next request of the
 * same caller and client gets the same one. A full bridge ends the longest idle session of the same caller for a new
 * one, or answers 503. Throws a `RangeError` for a bound that is not a whole number from 1.
 */
export function createHttpHosts(options: HttpHostsOptions): HttpHosts {
  const { open, caller = callerOf, onNote = () => {} } = options;
  const bounds = readLimits("createHttpHosts: sessions", options.sessions, defaultBounds);
  const { maxRequestBodySize = 32 * 2 ** 20 } = options;
  if (!Number.isSafeInteger(maxRequestBodySize) || maxRequestBodySize < 1)
    throw new RangeError("createHttpHosts: maxRequestBodySize must be a whole number from 1");
  const closing = new Set<Promise<void>>();
  const end: HostParts["end"] = (bridge) => {
    const closed = bridge.close().finally(() => closing.delete(closed));
    closing.add(closed);
  };
  const limits = { maxOpenCalls: 100, ...options.limits };
  const parts: HostParts = { open, note: onNote, limits, end };
  const table = createSessionTable<RunningBridge>(
    { ...bounds, perPrincipal: bounds.perProcess },
    ({ live }) => end(live),
  );
  const sessions = new HostSessions(table, parts);
  const requests = new RequestBridges(table, parts);
  let isClosed = false;

  async function serve(
    request: Request,
    body: unknown,
    authInfo: AuthInfo | undefined,
  ): Promise<Response> {
    const facts: HostFacts = {
      caller: caller(request, authInfo),
      headers: request.headers,
      authInfo,
    };
    const isSession = request.method !== "POST" || (await isLegacyRequest(request, body));
    const refusal = isSession ? undefined : await refusalOf(request, body);
    // it may have ended meanwhile: what is opened now would never be closed
    if (isClosed) return bridgeEnds();
    if (isSession) return sessions.serve(request, body, facts);
    if (refusal) return refusal;
    // the check above took it for a request or a notification
    if (isRequest(body)) return requests.serve(request, body as JSONRPCRequest, facts);
    requests.notify(body as JSONRPCRequest, facts);
    return new Response(null, { status: 202 });
  }

  return {
    maxRequestBodySize,
    async fetch(request, { authInfo, parsedBody } = {}) {
      if (isClosed) return bridgeEnds();
      if (!methods.has(request.method))
        return refuseRequest(405, -32_000, "Method not allowed.", {
          allow: [...methods].join(", "),
        });
      if (request.method !== "POST" || parsedBody !== undefined)
        return serve(request, parsedBody, authInfo);
      if (!isJsonContentType(request.headers.get("content-type")))
        return refuseRequest(415, -32_000, "Content-Type must be application/json");
      const read = await readRequestBody(request, maxRequestBodySize).catch(() => undefined);
      if (!read) return refuseRequest(400, -32_700, "Parse error: the body could not be read");
      if (read.tooLarge)
        return refuseRequest(
          413,
          -32_000,
          `A request has at most ${maxRequestBodySize} bytes here`,
        );
      const { value, fault } = readJson(read.text, maxContainers);
      if (fault) return refuseRequest(400, fault.code, fault.message);
      return serve(request, value, authInfo);
    },
    async close() {
      isClosed = true;
      for (const { live } of table.clear()) end(live);
      await Promise.all(closing);
    },
  };
}

const defaultBounds = { perProcess: 1_000, idleMs: 30 * 60_000 };

/** Of one request: all hosts wait while it is parsed. */
const maxContainers = 100_000;
const methods: ReadonlySet<string> = new Set(["GET", "POST", "DELETE"]);

/** A token that nothing verified keeps callers apart, too: it opens no session that it did not open before. */
function callerOf(request: Request, authInfo: AuthInfo | undefined): string {
  return authInfo?.token ?? request.headers.get("authorization") ?? "";
}

/**
 * Gives the SDK's refusal of a request of 2026-07-28: of a wrong media type, envelope or revision, and of header
 * fields that are not those of the body. Undefined for a request that may be served.
 */
async function refusalOf(request: Request, parsedBody: unknown): Promise<Response | undefined> {
  const response = await checker.fetch(request, { parsedBody });
  return checked.has(request) ? undefined : response;
}

const checked = new WeakSet<Request>();

/** It asks for a server when all is checked, and gets none. */
const checker = createMcpHandler(
  ({ requestInfo }) => {
    if (requestInfo) checked.add(requestInfo);
    throw new Error("the request was only checked");
  },
  { legacy: "reject" },
);

const noSession = "Bad Request: open a session with initialize, and send its Mcp-Session-Id";

/** Sessions of hosts of 2025-11-25 and older: each has a bridge of its own. */
class HostSessions {
  readonly #table: SessionTable<RunningBridge>;
  readonly #parts: HostParts;

  constructor(table: SessionTable<RunningBridge>, parts: HostParts) {
    this.#table = table;
    this.#parts = parts;
  }

  /** Answers a request of the session that it names, or one that opens a session. */
  async serve(request: Request, body: unknown, facts: HostFacts): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    if (id === null)
      return isInitializeRequest(body)
        ? this.#open(request, body, facts)
        : refuseRequest(400, -32_000, noSession);
    const entry = this.#table.find(id);
    const host = entry?.live.host;
    if (entry?.holder !== facts.caller || !(host instanceof SessionHost)) return sessionNotFound();
    return host.handle(request, body, this.#table.hold(entry));
  }

  async #open(request: Request, body: unknown, facts: HostFacts): Promise<Response> {
    const id = randomUUID();
    const host = new SessionHost(id);
    const live = new RunningBridge({ id, revision: "legacy", ...facts }, host, this.#parts);
    const entry = { id, holder: facts.caller, owner: facts.caller, live };
    if (!this.#table.add(entry)) return sessionsFull();
    const release = this.#table.hold(entry);
    const drop = (): void => this.#table.remove(id);
    try {
      await live.begin(drop);
    } catch (error) {
      drop();
      this.#parts.note(wordsOf(error));
      return serverNotOpened(error);
    }
    const response = await host.handle(request, body, release);
    if (!response.ok) this.#parts.end(live);
    return response;
  }
}
