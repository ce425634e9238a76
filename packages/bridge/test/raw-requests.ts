import type { Hosting } from "./hosting.ts";

/** Members of a message. */
export type RawMessage = Record<string, unknown>;

const capabilities = { elicitation: { form: {} }, sampling: {}, roots: {} };
const clientInfo = { name: "raw", version: "1.0.0" };
const initialize = {
  method: "initialize",
  params: { protocolVersion: "2025-11-25", capabilities, clientInfo },
};

/** Sends one message by POST. */
export function post(
  { url }: Pick<Hosting, "url">,
  message: unknown,
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  return fetch(url, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      accept: "application/json, text/event-stream",
      ...headers,
    },
    body: typeof message === "string" ? message : JSON.stringify(message),
    signal: signal ?? null,
  });
}

/** A request of 2026-07-28, with the fields that belong to it. `params` may have a `_meta`. */
export function postModern(
  hosting: Pick<Hosting, "url">,
  { id, method, params = {} }: { id: unknown; method: string; params?: RawMessage },
  headers: Record<string, string> = {},
  signal?: AbortSignal,
): Promise<Response> {
  const version = "2026-07-28";
  const _meta = {
    "io.modelcontextprotocol/protocolVersion": version,
    "io.modelcontextprotocol/clientInfo": clientInfo,
    "io.modelcontextprotocol/clientCapabilities": capabilities,
    ...(params["_meta"] as object | undefined),
  };
  const named = params["name"] ?? params["uri"];
  const name: Record<string, string> = typeof named === "string" ? { "mcp-name": named } : {};
  return post(
    hosting,
    { jsonrpc: "2.0", id, method, params: { ...params, _meta } },
    { "mcp-protocol-version": version, "mcp-method": method, ...name, ...headers },
    signal,
  );
}

/** A session of 2025-11-25. */
export interface RawSession {
  readonly headers: Record<string, string>;
  readonly send: (message: RawMessage) => Promise<Response>;
}

/** Opens a session by hand. */
export async function openSession(
  hosting: Pick<Hosting, "url">,
  headers: Record<string, string> = {},
): Promise<RawSession> {
  const opened = await post(hosting, { jsonrpc: "2.0", id: 0, ...initialize }, headers);
  await messagesOf(opened);
  const session = {
    ...headers,
    "mcp-session-id": opened.headers.get("mcp-session-id") ?? "none",
    "mcp-protocol-version": "2025-11-25",
  };
  const send = (message: RawMessage): Promise<Response> =>
    post(hosting, { jsonrpc: "2.0", ...message }, session);
  await send({ method: "notifications/initialized" });
  return { headers: session, send };
}

/** All messages of an answer, to its end. */
export async function messagesOf(response: Response): Promise<RawMessage[]> {
  const text = await response.text();
  if (!response.headers.get("content-type")?.includes("event-stream"))
    return [JSON.parse(text) as RawMessage];
  return [...text.matchAll(/^data: (.+)$/gm)].map(([, data]) => JSON.parse(data!) as RawMessage);
}
