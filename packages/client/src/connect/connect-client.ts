/** @ts-ignore: in our declarations, users of SDK version 1 lack this package */
import type { Client } from "@modelcontextprotocol/client";
import { SluiceError, type FetchLike, type Secret } from "@sluice/core";
import {
  abortable,
  ensureConfidential,
  ensureKnownOptions,
  onAbort,
  withBearer,
} from "@sluice/core/internal";
import type { Streaming, StreamingOptions } from "../calls/streaming.ts";
import { connectError } from "./connect-error.ts";
import { connectEither } from "./either-revision.ts";

/** Options of {@link connect}. */
export interface ConnectOptions {
  /**
   * Bearer token for the server, or what gets one before each request. It goes to the origin of the endpoint only, over
   * HTTPS or on this machine.
   */
  readonly token?: Secret;
  /** What the client calls itself to the server. Default: `sluice-client`. */
  readonly name?: string;
  /** Its version, in your words. Default: `1`. */
  readonly version?: string;
  /** Carries all requests in place of the platform's, for example through a proxy; checks on addresses are its job then. */
  readonly fetch?: FetchLike;
  /** Ends the wait for the connection. One that stands ends with `close()` of the client. */
  readonly signal?: AbortSignal;
}

const optionNames: Readonly<Record<keyof ConnectOptions, true>> = {
  token: true,
  name: true,
  version: true,
  fetch: true,
  signal: true,
};

/** Connects a client of the SDK, version 2, whose bytes travel as `streamingOf` says. */
export async function connectClient(
  endpoint: string | URL,
  options: ConnectOptions,
  streamingOf: (options: StreamingOptions) => Streaming,
): Promise<Client> {
  ensureKnownOptions("connect", options, optionNames);
  const { token, name = "sluice-client", version = "1", fetch, signal } = options;
  const url = readEndpoint(endpoint);
  if (token !== undefined) ensureConfidential("client", url);
  signal?.throwIfAborted();
  const streaming = streamingOf(fetch ? { fetch } : {});
  const { Client, StreamableHTTPClientTransport } = await loadSdk();
  const connecting = connectEither(async (versionNegotiation) => {
    signal?.throwIfAborted();
    const transport = new StreamableHTTPClientTransport(url, {
      fetch: withBearer(streaming.fetch, url, token),
    });
    const { capabilities } = streaming;
    const client = new Client({ name, version }, { capabilities, versionNegotiation });
    // the SDK checks its signal neither while a transport opens nor at every step after that
    const removeListener = onAbort(signal, () => void client.close());
    try {
      await abortable(client.connect(transport, signal && { signal }), signal);
      return client;
    } catch (error) {
      await client.close();
      throw error;
    } finally {
      removeListener();
    }
  });
  return connecting.catch((error: unknown) => {
    signal?.throwIfAborted();
    throw connectError(url, error);
  });
}

function readEndpoint(endpoint: string | URL): URL {
  const url = URL.canParse(String(endpoint)) ? new URL(endpoint) : undefined;
  if (url && /^https?:$/.test(url.protocol) && url.username === "" && url.password === "")
    return url;
  const advice = /^wss?:$/.test(url?.protocol ?? "")
    ? "; for a WebSocket use @sluice/transport-ws"
    : "";
  throw new TypeError(
    `connect: the endpoint is not an HTTP URL without credentials, such as http://127.0.0.1:2532/mcp${advice}`,
  );
}

/** Loads the SDK, an optional peer: programs with a client of their own need not install it. */
async function loadSdk(): Promise<typeof import("@modelcontextprotocol/client")> {
  try {
    return await import("@modelcontextprotocol/client");
  } catch (cause) {
    throw new SluiceError(
      "unsupported",
      "client: connect needs the package @modelcontextprotocol/client: install it, or give createStreaming() to a client that you have",
      { cause },
    );
  }
}
