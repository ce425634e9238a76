import { namesMethod, parseResourceUri, type RpcCall } from "@sluice/core";
import { NAME_HEADER, STREAM_METHOD } from "@sluice/core/wire";

/** Method with which a client of the modern era hears of changes (MCP 2026-07-28). */
export const LISTEN_METHOD = "subscriptions/listen";

/** A call that waits for its response. */
export interface RpcRequest extends RpcCall {
  readonly id: string | number;
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
export function callIn(body: unknown): RpcRequest | undefined {
  return isRequest(body) && methods.includes(body.method) ? body : undefined;
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

/** Any number is an id here: SDKs differ in which ones they take. */
function isRequest(body: unknown): body is RpcRequest {
  return namesMethod(body) && (typeof body.id === "string" || typeof body.id === "number");
}
