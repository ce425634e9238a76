import {
  StreamableHTTPClientTransport,
  type JSONRPCMessage,
  type StreamableHTTPClientTransportOptions,
} from "@modelcontextprotocol/client";
import { ensureConfidential, SluiceError, type FetchLike } from "@sluice/core";
import { boundedFetch } from "./bounded-fetch.ts";
import { FallbackTransport } from "./fallback-transport.ts";
import { createSignIn, type SignIn, type SignInOptions } from "./oauth/sign-in.ts";
import { sendWithScope } from "./oauth/wider-scope.ts";
import { ParamHeaders } from "./param-headers.ts";
import { serverFetch } from "./server-fetch.ts";
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

/** Broken streams are taken up again at these paces, in milliseconds, and given up after so many tries. */
const reconnection = {
  initialReconnectionDelay: 500,
  maxReconnectionDelay: 15_000,
  reconnectionDelayGrowFactor: 1.5,
  maxRetries: 8,
};

/**
 * A server behind a URL. Throws `invalid_argument` for what is no such URL, or holds credentials, and `untrusted` where a
 * token or headers would go to another machine over plain http: there is no sign-in over it either.
 */
export function createHttpUpstream(options: HttpUpstreamOptions): Upstream {
  const { url, headers = {}, token, maxMessageBytes = defaultMaxMessageBytes } = options;
  ensureServerUrl("bridge", options);
  const fetch = options.wrapFetch?.(serverFetch) ?? serverFetch;
  const signIn =
    options.signIn && token === undefined ? createSignIn(url, options.signIn) : undefined;
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

/** What is shown to a server, and where it is. */
type ShownTo = Pick<HttpUpstreamOptions, "url" | "headers" | "token">;

/** Throws for a URL that no server may have, or that these credentials must not go to. `operation` begins the message. */
export function ensureServerUrl(operation: string, { url, headers = {}, token }: ShownTo): void {
  if (url.protocol !== "https:" && url.protocol !== "http:")
    throw new SluiceError(
      "invalid_argument",
      `${operation}: ${url.protocol} is no URL of a server`,
    );
  // never repeats it
  if (url.username !== "" || url.password !== "")
    throw new SluiceError(
      "invalid_argument",
      `${operation}: the URL of the server holds credentials; pass them as a token or header`,
    );
  // any header may be a secret
  if (token !== undefined || Object.keys(headers).length > 0) ensureConfidential(operation, url);
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
