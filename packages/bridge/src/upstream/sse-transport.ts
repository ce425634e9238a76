import {
  extractWWWAuthenticateParams,
  InsufficientScopeError,
  SdkErrorCode,
  SdkHttpError,
  SSEClientTransport,
  SseError,
  type SSEClientTransportOptions,
  type Transport,
} from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike } from "@sluice/core";
import { defer, definedMembers } from "@sluice/core/internal";
import { type SignIn, sendWithScope } from "./oauth/sign-in.ts";

/* oxlint-disable unicorn/prefer-add-event-listener -- transports of the SDK have properties only */

/** What a connection by HTTP with SSE is made of. */
export interface SseOptions extends SSEClientTransportOptions {
  readonly fetch: FetchLike;
  /** Longest wait for the address of messages, a browser step not included, in milliseconds. Default: 10 s. */
  readonly endpointMs?: number | undefined;
  /** Asks the user for wider scopes. Default: none is asked. */
  readonly signIn?: SignIn | undefined;
}

/**
 * HTTP with SSE (2024-11-05): the stream of a GET names the address for messages, which the SDK takes of the same
 * origin only, and carries the responses. A stream that ends closes the transport. Its `start` rejects with `protocol` if
 * no address comes.
 */
export function sseTransport(url: URL, sseOptions: SseOptions): Transport {
  const { fetch, endpointMs = 10_000, signIn, ...options } = sseOptions;
  const silent = defer<never>();
  let late: NodeJS.Timeout | undefined;

  const transport = new SSEClientTransport(url, {
    ...options,
    async fetch(input, init) {
      if (init?.method === "POST") return post(fetch, input, init);
      clearTimeout(late);
      late = setTimeout(() => silent.reject(noEndpoint(url)), endpointMs);
      const response = await fetch(input, init);
      // the user signs in next
      if (response.status === 401) clearTimeout(late);
      return response;
    },
  });
  const start = transport.start.bind(transport);

  const close = transport.close.bind(transport);
  const send = transport.send.bind(transport);

  transport.send = (message) => sendWithScope(() => send(message), signIn);
  transport.close = async () => {
    await close();
    // the SDK closes it for reasons of its own, which come first
    const closed = new SluiceError("interrupted", "bridge: the connection was closed");
    setImmediate(() => silent.reject(closed));
  };
  transport.start = async () => {
    try {
      await Promise.race([start(), silent.promise]);
    } catch (error) {
      await transport.close();
      throw error;
    } finally {
      clearTimeout(late);
    }
    const { onerror } = transport;
    transport.onerror = (error) => {
      onerror?.(error);
      // the next stream is another session, which has to begin anew
      if (error instanceof SseError) void transport.close();
    };
  };
  // a stream is a session: 404 says that it is over
  return Object.assign(transport, { sessionId: "sse" });
}

/** The SDK gives the status of a message that was refused in words only, and knows no scopes here. */
async function post(
  fetch: FetchLike,
  input: Parameters<FetchLike>[0],
  init: RequestInit,
): Promise<Response> {
  const response = await fetch(input, init);
  const { ok, status, statusText } = response;
  if (ok || status === 401) return response;
  const text = await response.text();
  const { error, scope, resourceMetadataUrl } = extractWWWAuthenticateParams(response);
  if (status === 403 && error === "insufficient_scope")
    throw new InsufficientScopeError(definedMembers({ requiredScope: scope, resourceMetadataUrl }));
  throw new SdkHttpError(SdkErrorCode.ClientHttpUnexpectedContent, `HTTP ${status}`, {
    status,
    statusText,
    text,
  });
}

function noEndpoint({ origin }: URL): SluiceError {
  return new SluiceError("protocol", `bridge: ${origin} names no address for messages`);
}
