import {
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type StreamableHTTPClientTransportOptions,
} from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike } from "@sluice/core";
import { EnvHttpProxyAgent, fetch as undiciFetch } from "undici";
import { boundedFetch } from "./bounded-fetch.ts";
import { FallbackTransport } from "./fallback-transport.ts";
import { createSignIn, type SignIn, type SignInOptions } from "./oauth/sign-in.ts";
import { sendWithScope } from "./oauth/wider-scope.ts";
import { ParamHeaders } from "./param-headers.ts";
import { createSseTransport, type SseOptions } from "./sse-transport.ts";
import type { Upstream } from "./upstream.ts";

/** Options of a server that is reached by its URL. */
export interface HttpUpstreamOptions {
  /** The MCP endpoint: of Streamable HTTP, or else of HTTP with SSE (2024-11-05), whose messages go to its own origin. */
  readonly url: URL;
  /** Headers of every request. */
  readonly headers?: Readonly<Record<string, string>> | undefined;
  /** Bearer token of every request. With one, the user is not asked to sign in. Default: none. */
  readonly token?: string | undefined;
  /** Signs in with OAuth where the server asks for it. Default: it does not, and the server's 401 is the answer. */
  readonly signIn?: SignInOptions | undefined;
  /** Largest message to take, in bytes. Default: 32 MiB. */
  readonly maxMessageBytes?: number | undefined;
  /** Wraps the `fetch` of messages, as the spool does. */
  readonly wrapFetch?: ((fetch: FetchLike) => FetchLike) | undefined;
}

const defaultMaxMessageBytes = 32 * 2 ** 20;
const connectMs = 10_000;
/** A call may work for long before its first byte, and a stream of events may be silent for long. */
const silenceMs = 24 * 3_600_000;

/** Broken streams are taken up again at these paces, in milliseconds, and given up after so many tries. */
const reconnection = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 15_000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 8,
};

let dispatcher: EnvHttpProxyAgent | undefined;

/** One for the process: a bridge with many hosts keeps its connections from session to session. */
function sharedDispatcher(): EnvHttpProxyAgent {
  dispatcher ??= new EnvHttpProxyAgent({
    connect: { timeout: connectMs },
    headersTimeout: silenceMs,
    bodyTimeout: silenceMs,
  });
  return dispatcher;
}

// its types are those of the package, not of the platform
const plainFetch: FetchLike = (input, init) =>
  undiciFetch(input, { ...(init as object), dispatcher: sharedDispatcher() });

/** A server behind a URL. Plain http is for this machine; elsewhere it wants `https`. */
export function createHttpUpstream(options: HttpUpstreamOptions): Upstream {
  const { url, headers = {}, token, maxMessageBytes = defaultMaxMessageBytes } = options;
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw new SluiceError("invalid_argument", `bridge: ${url.protocol} is no URL of a server`);
  const fetch = options.wrapFetch?.(plainFetch) ?? plainFetch;
  const signIn =
    options.signIn && token === undefined
      ? createSignIn(url, options.signIn, plainFetch)
      : undefined;
  const sent = token === undefined ? headers : { ...headers, Authorization: `Bearer ${token}` };
  const paramHeaders = new ParamHeaders();
  let isOlder = false;

  return {
    name: url.origin,
    kind: "http",
    learn: (message) => paramHeaders.learn(message),
    open: (flow) => {
      const common: StreamableHTTPClientTransportOptions & Omit<SseOptions, "signIn"> = {
        fetch: boundedFetch(fetch, maxMessageBytes, flow),
        requestInit: { headers: sent },
      };
      if (signIn) common.authProvider = signIn.provider;
      const streamable = { ...common, reconnectionOptions: reconnection };
      return new FallbackTransport({
        newer: () => new HttpTransport(url, streamable, paramHeaders, signIn),
        older: () => createSseTransport(url, { ...common, signIn }),
        isOlder,
        onOlder: () => void (isOlder = true),
      });
    },
  };
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
