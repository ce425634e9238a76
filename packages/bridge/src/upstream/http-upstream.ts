import {
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type StreamableHTTPClientTransportOptions,
  type JSONRPCRequest,
} from "@modelcontextprotocol/client";
import { cookieFetch } from "@sluice/client/internal";
import { SluiceError, type FetchLike, type Secret } from "@sluice/core";
import { ensureConfidential, withBearer } from "@sluice/core/internal";
import { boundedFetch } from "./bounded-fetch.ts";
import { FallbackTransport } from "./fallback-transport.ts";
import { methodFetch } from "./method-fetch.ts";
import { SignIn, type SignInOptions, sendWithScope } from "./oauth/sign-in.ts";
import { serverFetch } from "./connections.ts";
import { sseTransport, type SseOptions } from "./sse-transport.ts";
import type { Upstream } from "./upstream.ts";
import { isAnswer, isCall, isMembers, membersOf, type Members } from "../messages/messages.ts";
import { envelopeOf } from "../messages/envelope.ts";

/** Options of a server that is reached by its URL. */
export interface HttpUpstreamOptions {
  /** The MCP endpoint: of Streamable HTTP, or else of HTTP with SSE (2024-11-05), whose messages go to its own origin. */
  readonly endpoint: string | URL;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /**
   * Bearer token, or what gets one before each request, for requests to the origin of the endpoint. With one, the user is not
   * asked to sign in. Default: none.
   */
  readonly token?: Secret | undefined;
  /** Signs in with OAuth where the server asks for it. Default: it does not, and the server's 401 is the response. */
  readonly signIn?: SignInOptions | undefined;
  /** Largest message to take, in bytes. Default: 32 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Wraps the `fetch` of messages, as the spool does. */
  readonly wrapFetch?: ((fetch: FetchLike) => FetchLike) | undefined;
}

const defaultMaxMessageBytes = 32 * 2 ** 20;

/** Broken streams are resumed at these paces, in milliseconds, and given up after `maxRetries`. */
const reconnection = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 15_000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 8,
};

/**
 * A server behind a URL. Throws `invalid_argument` for any other URL, or one with credentials, and `untrusted` if a
 * token or headers would go to another machine over plain http: there is no sign-in over it either.
 */
export function createHttpUpstream(options: HttpUpstreamOptions): Upstream {
  const { headers = {}, token, maxMessageBytes = defaultMaxMessageBytes } = options;
  const url = readServerUrl("bridge", options);
  const cookies = cookieFetch(serverFetch, url.origin);
  const fetch = withBearer(options.wrapFetch?.(cookies) ?? cookies, url, token);
  const signIn =
    options.signIn && token === undefined ? new SignIn(url, options.signIn) : undefined;
  const paramHeaders = new ParamHeaders();
  const bounds = { maxBytes: maxMessageBytes, hasSpool: options.wrapFetch !== undefined };
  let isOlder = false;

  return {
    name: url.origin,
    kind: "http",
    learn: (message) => paramHeaders.learn(message),
    open: (flow) => {
      const common: StreamableHTTPClientTransportOptions & Omit<SseOptions, "signIn"> = {
        fetch: boundedFetch(fetch, bounds, flow),
        requestInit: { headers },
      };
      if (signIn) common.authProvider = signIn.provider;
      const newer = (): HttpTransport => {
        const streamable = { ...common, reconnectionOptions: reconnection };
        streamable.fetch = methodFetch(common.fetch);
        return new HttpTransport(url, streamable, paramHeaders, signIn);
      };
      return new FallbackTransport({
        newer,
        older: () => sseTransport(url, { ...common, signIn }),
        isOlder,
        onOlder: () => void (isOlder = true),
      });
    },
  };
}

/** What is shown to a server, and where it is. */
type ShownTo = Pick<HttpUpstreamOptions, "endpoint" | "headers" | "token">;

/** Throws for a URL that no server may have, or that these credentials must not go to. `operation` begins the message. */
export function readServerUrl(operation: string, { endpoint, headers = {}, token }: ShownTo): URL {
  // never repeats it: it may hold credentials
  if (!URL.canParse(String(endpoint)))
    throw new SluiceError("invalid_argument", `${operation}: the endpoint is not a server URL`);
  const url = new URL(endpoint);
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw new SluiceError("invalid_argument", `${operation}: ${url.protocol} is not a server URL`);
  // never repeats it
  if (url.username !== "" || url.password !== "")
    throw new SluiceError(
      "invalid_argument",
      `${operation}: the URL of the server holds credentials; pass them as a token or header`,
    );
  // any header may be a secret
  if (token !== undefined || Object.keys(headers).length > 0) ensureConfidential(operation, url);
  return url;
}

/** The SDK's transport with what a host over stdio cannot add: headers from arguments, and wider tokens. */
class HttpTransport extends StreamableHTTPClientTransport {
  readonly #paramHeaders: ParamHeaders;
  readonly #signIn: SignIn | undefined;

  constructor(
    url: URL,
    options: StreamableHTTPClientTransportOptions,
    paramHeaders: ParamHeaders,
    signIn: SignIn | undefined,
  ) {
    super(url, options);
    this.#paramHeaders = paramHeaders;
    this.#signIn = signIn;
  }

  override async send(
    message: JSONRPCMessage,
    options: Parameters<StreamableHTTPClientTransport["send"]>[1] = {},
  ): Promise<void> {
    const headers = this.#paramHeaders.headersOf(message);
    // fields that the host sent itself are for the server to compare
    const sendOptions = headers
      ? { ...options, headers: { ...headers, ...options.headers } }
      : options;
    await sendWithScope(() => super.send(message, sendOptions), this.#signIn);
  }
}

/** An argument of a tool that gateways read from a header. */
interface ParamHeader {
  readonly path: readonly string[];
  readonly header: string;
}

const maxTools = 10_000;
const maxDepth = 16;
const tokenPattern = /^[!#$%&'*+\-.^_`|~0-9A-Za-z]{1,200}$/;
const plainPattern = /^[\x21-\x7e](?:[\t\x20-\x7e]*[\x21-\x7e])?$/;

/**
 * Headers that repeat arguments of tools for gateways (2026-07-28, `x-mcp-header`). A host that speaks over stdio
 * sends none: the bridge learns them from lists of tools and adds them.
 */
class ParamHeaders {
  readonly #tools = new Map<string, readonly ParamHeader[]>();

  /** Learns from the server's lists of tools. */
  learn(message: JSONRPCMessage): void {
    if (!isAnswer(message) || !("result" in message)) return;
    const tools: unknown = message.result["tools"];
    if (!Array.isArray(tools)) return;
    for (const tool of tools as unknown[]) {
      const { name, inputSchema } = membersOf(tool);
      if (typeof name !== "string") continue;
      const headers = headersIn(membersOf(inputSchema), []);
      if (headers.length === 0) this.#tools.delete(name);
      else if (this.#tools.size < maxTools) this.#tools.set(name, headers);
    }
  }

  /** Headers of one message; undefined when there are none. */
  headersOf(message: JSONRPCMessage): Readonly<Record<string, string>> | undefined {
    if (!isCall(message) || message.method !== "tools/call" || !envelopeOf(message))
      return undefined;
    return this.#headersOfCall(message);
  }

  #headersOfCall(call: JSONRPCRequest): Readonly<Record<string, string>> | undefined {
    const { name, arguments: callArguments } = membersOf(call.params);
    const declarations = this.#tools.get(String(name));
    if (!declarations) return undefined;
    const headers: Record<string, string> = {};
    for (const { path, header } of declarations) {
      const value = path.reduce<unknown>((node, key) => membersOf(node)[key], callArguments);
      const text = textOf(value);
      if (text !== undefined) headers[`Mcp-Param-${header}`] = encode(text);
    }
    return headers;
  }
}

function headersIn(schema: Members, path: readonly string[]): ParamHeader[] {
  if (path.length > maxDepth) return [];
  return Object.entries(membersOf(schema["properties"])).flatMap(([name, property]) => {
    if (!isMembers(property)) return [];
    const here = [...path, name];
    const header = property["x-mcp-header"];
    const ownHeaders =
      typeof header === "string" && tokenPattern.test(header) ? [{ path: here, header }] : [];
    return [...ownHeaders, ...headersIn(property, here)];
  });
}

function textOf(value: unknown): string | undefined {
  if (typeof value === "string") return value;
  if (typeof value === "boolean") return String(value);
  if (typeof value !== "number" || !Number.isFinite(value)) return undefined;
  return Number.isInteger(value) && !Number.isSafeInteger(value) ? undefined : String(value);
}

/** Other than plain field values go as base64. */
function encode(text: string): string {
  if (plainPattern.test(text) && !(text.startsWith("=?base64?") && text.endsWith("?=")))
    return text;
  return `=?base64?${Buffer.from(text, "utf8").toString("base64")}?=`;
}
