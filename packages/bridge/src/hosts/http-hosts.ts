import {
  isJsonContentType,
  isLegacyRequest,
  readRequestBody,
  type AuthInfo,
  type JSONRPCRequest,
  type McpHandlerRequestOptions,
} from "@modelcontextprotocol/server";
import { isRequest, readJson } from "@sluice/core";
import { createSessionTable } from "@sluice/core/async";
import type { BridgeLimits } from "../relay/limits.ts";
import { refusalOf } from "./checked-request.ts";
import type { HostFacts, HostParts, OpenServer } from "./host-session.ts";
import { HostSessions } from "./host-sessions.ts";
import { bridgeEnds, refuseRequest } from "./http-refusal.ts";
import { RequestBridges } from "./request-bridges.ts";
import type { RunningBridge } from "./running-bridge.ts";

/** Options of {@link createHttpHosts}. */
export interface HttpHostsOptions {
  /** Opens what stands behind one session: a connection or a process for it alone, and its hooks. */
  readonly open: OpenServer;
  /**
   * Names the caller of a request. Sessions and connections to the server belong to one caller; all requests of an
   * equal name count as those of one user. Default: its verified token, else its `Authorization` field.
   */
  readonly caller?: (request: Request, authInfo: AuthInfo | undefined) => string;
  /** Most sessions, and connections for hosts without sessions, together. Default: 1,000. */
  readonly maxSessions?: number;
  /** Milliseconds without a request or an open stream after which a session ends. Default: 30 min. */
  readonly idleMs?: number;
  /** Largest JSON of a request, in bytes; more is answered with 413. Default: 32 MiB. */
  readonly maxRequestBodySize?: number;
  /** Bounds and deadlines of each session. Default: those of {@link BridgeLimits}, with 100 open calls. */
  readonly limits?: Partial<BridgeLimits>;
  /** Gets lines for people, such as that the server is away. Default: they are dropped. */
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
 * one, or answers 503. Throws a `RangeError` for a bound that is no whole number from 1.
 */
export function createHttpHosts(options: HttpHostsOptions): HttpHosts {
  const { open, caller = callerOf, onNote = () => {} } = options;
  const { maxSessions = 1_000, idleMs = 30 * 60_000, maxRequestBodySize = 32 * 2 ** 20 } = options;
  for (const [name, bound] of Object.entries({ maxSessions, idleMs, maxRequestBodySize }))
    if (!Number.isSafeInteger(bound) || bound < 1)
      throw new RangeError(`createHttpHosts: ${name} must be a whole number from 1`);
  const closing = new Set<Promise<void>>();
  const end: HostParts["end"] = (bridge) => {
    const closed = bridge.close().finally(() => closing.delete(closed));
    closing.add(closed);
  };
  const limits = { maxOpenCalls: 100, ...options.limits };
  const parts: HostParts = { open, note: onNote, limits, end };
  const bounds = { idleMs, maxSessions, maxPerPrincipal: maxSessions };
  const table = createSessionTable<RunningBridge>(bounds, ({ live }) => end(live));
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

/** Of one request: all hosts wait while it is parsed. */
const maxContainers = 100_000;
const methods: ReadonlySet<string> = new Set(["GET", "POST", "DELETE"]);

/** A token that nothing verified keeps callers apart, too: it opens no session that it did not open before. */
function callerOf(request: Request, authInfo: AuthInfo | undefined): string {
  return authInfo?.token ?? request.headers.get("authorization") ?? "";
}
