/** Id of a JSON-RPC request. */
export type RpcId = string | number;

/** A JSON-RPC 2.0 request; without an id, a notification. */
export interface RpcCall {
  readonly jsonrpc: "2.0";
  readonly id?: RpcId;
  readonly method: string;
  readonly params?: Readonly<Record<string, unknown>>;
}

/** A JSON-RPC 2.0 response: a result, or an error, whose id is `null` where the request could not be read. */
export interface RpcResponse {
  readonly jsonrpc: "2.0";
  readonly id?: RpcId | null;
  readonly method?: never;
  readonly result?: Readonly<Record<string, unknown>>;
  readonly error?: { readonly code: number; readonly message: string; readonly data?: unknown };
}

/** One message as MCP sends it. The SDK checks its params or result. */
export type RpcMessage = RpcCall | RpcResponse;

/** A message of which only the kind is known: its members are not checked. */
export interface LooseMessage {
  readonly jsonrpc?: unknown;
  readonly id?: unknown;
  readonly method?: unknown;
  readonly params?: Readonly<Record<string, unknown>>;
  readonly result?: unknown;
  readonly error?: unknown;
}

/** A request of either side, by {@link isRequest}. */
export interface LooseRequest extends LooseMessage {
  readonly id: RpcId;
  readonly method: string;
}

/** A response of either side, by {@link isResponse}. */
export interface LooseResponse extends LooseMessage {
  readonly id: RpcId;
}

/** Why a text is not read, as the JSON-RPC error that says so. */
export interface MessageFault {
  /** -32700: no JSON, or nested deeper than 128 levels. -32600: JSON, but not one JSON-RPC message. */
  readonly code: -32700 | -32600;
  readonly message: string;
}

/** JSON of another party, or what is wrong with it. */
export type ReadJson =
  | { readonly value: unknown; readonly fault?: never }
  | { readonly fault: MessageFault; readonly value?: never };

/** A message of another party, or what is wrong with it. */
export type ReadRpc =
  | { readonly message: RpcMessage; readonly fault?: never }
  | { readonly fault: MessageFault; readonly message?: never };

/**
 * Reads JSON of another party. The text is checked for its depth, and for more than `maxContainers` arrays and objects,
 * before it is parsed; its length is for the transport to bound. A fault never quotes the text.
 */
export function readJson(text: string, maxContainers?: number): ReadJson {
  const excess = excessOf(text, maxContainers);
  if (excess) return { fault: { code: -32_700, message: `Parse error: ${excess}` } };
  try {
    return { value: JSON.parse(text) };
  } catch {
    return { fault: notJson };
  }
}

/**
 * Reads a text as one JSON-RPC message. Batches are a fault: revision 2025-06-18 removed them from
 * MCP. If an SDK still answers them, as over HTTP, read with {@link readJson}.
 */
export function readRpc(text: string, maxContainers?: number): ReadRpc {
  const { value, fault } = readJson(text, maxContainers);
  if (fault) return { fault };
  return isRpcMessage(value) ? { message: value } : { fault: notJsonRpc };
}

/** True for one well-formed message: the members that JSON-RPC 2.0 names, as MCP narrows them. */
function isRpcMessage(value: unknown): value is RpcMessage {
  if (!isObject(value) || value["jsonrpc"] !== "2.0") return false;
  const { id, method, params, result, error } = value;
  const isIdentified = typeof id === "string" || Number.isSafeInteger(id);
  if (method !== undefined)
    return (
      typeof method === "string" &&
      (id === undefined || isIdentified) &&
      (params === undefined || isObject(params)) &&
      result === undefined &&
      error === undefined
    );
  if (error === undefined) return isIdentified && isObject(result);
  return (
    result === undefined &&
    (isIdentified || id === undefined || id === null) &&
    isObject(error) &&
    Number.isSafeInteger(error["code"]) &&
    typeof error["message"] === "string"
  );
}

/**
 * True for everything that names a method, well-formed or not. Layers that filter calls use this wider rule: an SDK
 * takes more than {@link readRpc}, and no call may pass a filter by being odd.
 */
export function namesMethod(value: unknown): value is RpcCall {
  return isObject(value) && typeof value["method"] === "string";
}

/** True for a request of either side. */
export function isRequest(message: unknown): message is LooseRequest {
  return namesMethod(message) && isId(message.id);
}

/** True for a response of either side: it has a result or an error, and no method. */
export function isResponse(message: unknown): message is LooseResponse {
  if (!isObject(message) || message["method"] !== undefined || !isId(message["id"])) return false;
  return "result" in message || "error" in message;
}

/** Id of the request that a notification cancels. */
export function cancelledBy(message: unknown): RpcId | undefined {
  if (!namesMethod(message) || message.method !== "notifications/cancelled") return undefined;
  const id = message.params?.["requestId"];
  return isId(id) ? id : undefined;
}

/** Key of an id: 5 and "5" are two. */
export function keyOf(id: unknown): string {
  return JSON.stringify(id) ?? "";
}

function isId(id: unknown): id is RpcId {
  return typeof id === "string" || (typeof id === "number" && Number.isFinite(id));
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

const notJson: MessageFault = { code: -32_700, message: "Parse error: Invalid JSON" };
const notJsonRpc: MessageFault = {
  code: -32_600,
  message: "Invalid Request: one JSON-RPC 2.0 message, no batches",
};

/** Deepest nesting of arrays and objects in the JSON of another party. */
const maxLevels = 128;

/**
 * Parses JSON of another party. Throws a `SyntaxError` for invalid JSON, and, before any value is
 * made, for arrays and objects nested deeper than 128 levels. That message quotes nothing of the
 * text.
 */
export function parseJson(text: string): unknown {
  const excess = excessOf(text);
  if (excess) throw new SyntaxError(`JSON: ${excess}`);
  return JSON.parse(text);
}

/**
 * The limit that a text exceeds: nesting of 128 levels, or `maxContainers` arrays and objects, since a parser takes long for
 * each, however small it is. Looks at each character once; for invalid JSON the result is arbitrary.
 */
function excessOf(text: string, maxContainers: number = Infinity): string | undefined {
  let level = 0;
  let containers = 0;
  for (let at = 0; at < text.length; at++) {
    const code = text.charCodeAt(at);
    if (code === quote) at = endOfString(text, at + 1);
    else if (code === openBracket || code === openBrace) {
      level++;
      containers++;
      if (level > maxLevels) return "nested deeper than 128 levels";
      if (containers > maxContainers) return `more than ${maxContainers} arrays and objects`;
    } else if (code === closeBracket || code === closeBrace) level--;
  }
  return undefined;
}

/** Where the string whose content begins at `from` has its closing quote. */
function endOfString(text: string, from: number): number {
  let at = from;
  for (;;) {
    const code = text.charCodeAt(at);
    // NaN: the text has ended
    if (code === quote || Number.isNaN(code)) return at;
    at += code === backslash ? 2 : 1;
  }
}

const quote = 0x22;
const backslash = 0x5c;
const openBracket = 0x5b;
const closeBracket = 0x5d;
const openBrace = 0x7b;
const closeBrace = 0x7d;

type Optional<T> = { [K in keyof T]-?: undefined extends T[K] ? K : never }[keyof T];

/** An object without its members of `undefined`. */
export type DefinedMembers<T> = { [K in Exclude<keyof T, Optional<T>>]: T[K] } & {
  [K in Optional<T>]?: Exclude<T[K], undefined>;
};

/** Copies an object without the members whose value is `undefined`: JSON has no such value. */
export function definedMembers<T extends object>(members: T): DefinedMembers<T> {
  // a loop: several of these run for each small download
  const defined: Record<string, unknown> = {};
  for (const name of Object.keys(members)) {
    const value = members[name as keyof T];
    if (value !== undefined) defined[name] = value;
  }
  return defined as DefinedMembers<T>;
}
