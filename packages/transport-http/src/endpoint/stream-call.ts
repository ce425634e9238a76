import { parseResourceUri } from "@sluice/core";
import { NAME_HEADER, STREAM_METHOD } from "@sluice/core/wire";

/** Method with which a client of the modern era hears of changes (MCP 2026-07-28). */
export const LISTEN_METHOD = "subscriptions/listen";

/** A single JSON-RPC request out of a body. */
export interface RpcCall {
  readonly jsonrpc: "2.0";
  readonly id: string | number;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** The requests that the wrapper must see. */
const methods: readonly string[] = [
  STREAM_METHOD,
  LISTEN_METHOD,
  "initialize",
  "completion/complete",
  "resources/list",
  "resources/read",
  "resources/subscribe",
  "resources/templates/list",
  "resources/unsubscribe",
];

/** True for a method that is refused with 401 to a caller that has to sign in. */
export function isResourceMethod(method: string): boolean {
  return method.startsWith("resources/") || method === "completion/complete";
}

/** The call in a parsed body when it is one of ours. Everything odd is `undefined`: the SDK answers that. */
export function callIn(body: unknown): RpcCall | undefined {
  return isCall(body) && methods.includes(body.method) ? body : undefined;
}

/**
 * True when `Mcp-Name` names another resource than the body: a gateway in front would judge the one
 * and the server answer the other. The SDK looks at the methods of the specification only.
 */
export function isMisnamed(request: Request, { params }: RpcCall): boolean {
  const name = request.headers.get(NAME_HEADER);
  const uri = params?.["uri"];
  return name !== null && typeof uri === "string" && parseResourceUri(name) !== uri;
}

function isCall(body: unknown): body is RpcCall {
  if (typeof body !== "object" || body === null) return false;
  const { id, method } = body as { id?: unknown; method?: unknown };
  return typeof method === "string" && (typeof id === "string" || typeof id === "number");
}
