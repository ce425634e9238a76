import { createHash, randomUUID } from "node:crypto";
import {
  createMcpHandler,
  isInitializeRequest,
  isLegacyRequest,
  WebStandardStreamableHTTPServerTransport as Transport,
  type McpHandlerRequestOptions,
  type McpServer,
} from "@modelcontextprotocol/server";
import { SluiceError, type StateStore } from "@sluice/core";
import type { McpFetchHandler } from "@sluice/transport-http";
import { LRUCache } from "lru-cache";

/** A handler of both eras whose sessions are known to all processes that share the store. */
export interface SharedSessions extends McpFetchHandler {
  /** Ends what this process has of its sessions; others go on with them. */
  close(): Promise<void>;
}

const sessionMs = 24 * 3_600_000;
const idleMs = 3_600_000;
/** Bytes of an `initialize`, which lies in the store as long as its session lasts. */
const maxOpening = 16_384;

/**
 * Modern clients need no session. A legacy one opens its session in one process and goes on in any: the
 * `initialize` that opened it is kept in the store, and a process that does not know the session says it
 * once more to a server of its own. What only that server knew, such as its subscriptions, stays there.
 * A session lasts for 24 h. A process keeps the 2,000 that were asked last, and none that was not asked for an
 * hour; what runs in one that gives way is cut, and its next request opens it anew.
 */
export function createSharedSessions(
  factory: () => McpServer,
  { state }: { readonly state: StateStore },
): SharedSessions {
  const modern = createMcpHandler(factory, { legacy: "reject" });
  const sessions = new LRUCache<string, Promise<Transport>>({
    max: 2_000,
    ttl: idleMs,
    updateAgeOnGet: true,
    dispose: (session) => void session.then((transport) => transport.close()).catch(() => {}),
  });

  async function open(
    message: unknown,
    request: Request,
    options: McpHandlerRequestOptions,
  ): Promise<Response> {
    const opening: Opening = { message, owner: ownerOf(options.authInfo) };
    const record = new TextEncoder().encode(JSON.stringify(opening));
    if (record.byteLength > maxOpening) return refuse(413, "initialize is too large");
    const id = randomUUID();
    const now = Date.now();
    await state.put(nameOf(id), record, { now, expiresAt: now + sessionMs });
    sessions.purgeStale();
    const session = connect(id);
    sessions.set(id, session);
    const response = await (await session).handleRequest(request, options);
    // who is refused never hears of the session
    if (!response.ok) await end(id);
    return response;
  }

  async function end(id: string): Promise<void> {
    sessions.delete(id);
    await state.take(nameOf(id), Date.now());
  }

  async function connect(id: string): Promise<Transport> {
    const transport = new Transport({ sessionIdGenerator: () => id });
    await factory().connect(transport);
    return transport;
  }

  async function adopt(id: string, { message }: Opening, authInfo: AuthInfo): Promise<Transport> {
    const transport = await connect(id);
    for (const parsedBody of [message, { jsonrpc: "2.0", method: "notifications/initialized" }])
      await tell(transport, id, { parsedBody, ...(authInfo && { authInfo }) });
    return transport;
  }

  async function legacy(request: Request, options: McpHandlerRequestOptions): Promise<Response> {
    const id = request.headers.get("mcp-session-id");
    const { authInfo } = options;
    if (id === null) {
      const message = options.parsedBody ?? (await bodyOf(request));
      if (!isInitializeRequest(message)) return refuse(400, "no session");
      return open(message, request, options);
    }
    const record = await state.get(nameOf(id), Date.now());
    const opening = record && (JSON.parse(new TextDecoder().decode(record)) as Opening);
    if (opening?.owner !== ownerOf(authInfo)) {
      if (!record) sessions.delete(id);
      return refuse(404, "no such session");
    }
    let session = sessions.get(id);
    if (!session) {
      session = adopt(id, opening, authInfo);
      session.catch(() => sessions.delete(id));
      sessions.set(id, session);
    }
    const response = await (await session).handleRequest(request, options);
    if (request.method === "DELETE" && response.ok) await end(id);
    return response;
  }

  return {
    async fetch(request, options = {}) {
      const isLegacy =
        request.method !== "POST" || (await isLegacyRequest(request, options.parsedBody));
      return isLegacy
        ? legacy(request, options).catch(whileStoreIsDown)
        : modern.fetch(request, options);
    },
    async close() {
      sessions.clear();
      await modern.close();
    },
  };
}

/** The JSON of a request; `undefined` when it is none. */
function bodyOf(request: Request): Promise<unknown> {
  return request
    .clone()
    .json()
    .catch(() => undefined);
}

function whileStoreIsDown(error: unknown): Response {
  if (!SluiceError.is(error) || error.code !== "unavailable") throw error;
  return refuse(503, "try again later", { "retry-after": "1" });
}

function refuse(status: number, error: string, headers: Record<string, string> = {}): Response {
  return Response.json({ error }, { status, headers });
}

type AuthInfo = McpHandlerRequestOptions["authInfo"];

/** What is kept of a session. */
interface Opening {
  /** The `initialize` of its client. */
  readonly message: unknown;
  readonly owner: string;
}

/** Clients may send ids of any length and with any characters. */
function nameOf(id: string): string {
  return `session ${createHash("sha256").update(id).digest("hex")}`;
}

/** A session is good for who opened it. */
function ownerOf(authInfo: AuthInfo): string {
  return JSON.stringify([authInfo?.clientId, authInfo?.extra?.["sub"]]);
}

/** Says something to a server that its client has said to another one, and drops the answer. */
async function tell(
  transport: Transport,
  id: string,
  options: McpHandlerRequestOptions,
): Promise<void> {
  const headers = {
    accept: "application/json, text/event-stream",
    "content-type": "application/json",
    "mcp-session-id": id,
  };
  const request = new Request("http://localhost/", { method: "POST", headers });
  const answer = await transport.handleRequest(request, options);
  await answer.text();
}
