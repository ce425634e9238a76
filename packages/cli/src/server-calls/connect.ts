import {
  type AuthProvider,
  Client,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import {
  connectEither,
  cookieFetch,
  ensureTrustedOrigins,
  streamingCapabilities,
  withStreaming,
} from "@sluice/client/internal";
import type { FileSender } from "@sluice/client/send";
import { abortable, definedMembers, ensureConfidential, onAbort } from "@sluice/core/internal";
import { hasServerRules, proxyFor } from "@sluice/core/internal/node";
import { createWebSocketTransport } from "@sluice/transport-ws/client";
import { SluiceError } from "@sluice/core";
import { Advice, fault } from "../terminal/failure.ts";
import { version } from "../terminal/print.ts";
import { callServer, type ServerCall } from "./call-server.ts";
import { headersFrom } from "./headers.ts";
import { type NetworkOptions, useNetwork } from "./server-rules.ts";
import { commandSignIn } from "./sign-in.ts";
import { tidied } from "./tidied.ts";

/** How to reach a server. */
export interface ServerCallOptions extends NetworkOptions {
  /** Bearer token. */
  readonly token?: string | undefined;
  /** Lines of further headers, as `--header` takes them. */
  readonly header?: readonly string[];
  /** Further origins of bytes, and of a sign-in. */
  readonly trust?: readonly string[];
  /** Sign in with a browser if the server asks for it. Default: true. */
  readonly browser?: boolean;
  readonly signal: AbortSignal;
}

/** A connection to an MCP server. */
export interface ClientConnection extends ServerCall {
  readonly client: Client;
}

/** Connects to an MCP server; close the client when done. `files` answers requests for files. */
export async function connect(
  server: string,
  options: ServerCallOptions,
  files?: Pick<FileSender<never>, "extend" | "fetch">,
): Promise<ClientConnection> {
  const { token, header = [], browser = true, trust: trustedOrigins, signal } = options;
  const headers = headersFrom(header);
  if (token !== undefined) headers["authorization"] = `Bearer ${token}`;
  const address = parseAddress(server, headers);
  await useNetwork(address, options);
  const isSelfAuthorized = Object.keys(headers).some((name) => /^authorization$/i.test(name));
  const signIn =
    browser && !isSelfAuthorized ? commandSignIn(address, { trustedOrigins, signal }) : undefined;
  const ClientOf = files?.extend(Client) ?? Client;
  const client = await callServer({ server, signal }, () =>
    connectEither(async (versionNegotiation) => {
      signal.throwIfAborted();
      const transport = tidied(await transportTo(address, { token, headers, signIn }, files));
      const capabilities = streamingCapabilities();
      const opened = new ClientOf(
        { name: "sluice", version },
        { capabilities, versionNegotiation },
      );
      // the SDK looks at its signal neither while a transport opens a connection nor at every step after that
      const removeListener = onAbort(signal, () => void transport.close());
      try {
        await abortable(opened.connect(transport, { signal }), signal);
        return opened;
      } catch (error) {
        await transport.close();
        throw error;
      } finally {
        removeListener();
      }
    }),
  );
  return { client, server, signal };
}

/** What a server is shown. */
interface Credentials {
  readonly token: string | undefined;
  readonly headers: Readonly<Record<string, string>>;
  readonly signIn: AuthProvider | undefined;
}

async function transportTo(
  url: URL,
  { token, headers, signIn }: Credentials,
  files: Pick<FileSender<never>, "fetch"> | undefined,
): Promise<Transport> {
  if (url.protocol.startsWith("ws"))
    return createWebSocketTransport(url, token === undefined ? {} : { token });
  // the fetch of Node knows neither proxies nor rules, and this one takes its time to load
  const isPlain = !proxyFor(url) && !hasServerRules();
  const fetch = isPlain ? undefined : (await import("@sluice/bridge/internal")).serverFetch;
  const streaming = withStreaming(cookieFetch(fetch ?? globalThis.fetch, url.origin), "node");
  const watched = files?.fetch(streaming) ?? streaming;
  return new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => boundAnswers(await watched(input, init)),
    requestInit: { headers },
    ...definedMembers({ authProvider: signIn }),
  });
}

function parseAddress(address: string, headers: Readonly<Record<string, string>>): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (
    url === undefined ||
    !/^(?:https?|wss?):$/.test(url.protocol) ||
    url.username !== "" ||
    url.password !== ""
  )
    throw fault(
      "invalid_argument",
      `${JSON.stringify(address)} is not a server URL`,
      "write it like http://127.0.0.1:2532/mcp",
    );
  const names = Object.keys(headers);
  if (names.length > 0) ensureConfidential("client", url);
  if (url.protocol.startsWith("ws") && names.some((name) => name !== "authorization"))
    throw fault("invalid_argument", "a WebSocket takes no --header", "use the http address");
  return url;
}

/** Throws for a `--trust` that is not an origin, before anything is sent. */
export function ensureTrust(trust: readonly string[] = []): void {
  try {
    ensureTrustedOrigins(trust);
  } catch (error) {
    const advice = "write it like --trust https://cdn.example.com, or https://*.example.com";
    throw new Advice(error, advice);
  }
}

/** Maximum bytes of a JSON response, of a refusal, or of one event: as much as of one WebSocket message. */
const maxMessageBytes = 16 * 2 ** 20;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/**
 * A response whose body ends with `protocol` if one message of it has more than 16 MiB: the SDK collects messages
 * without a bound. A blank line ends an event (HTML section 9.2.6).
 */
export function boundAnswers(answer: Response): Response {
  const { body, status, statusText, headers } = answer;
  if (!body) return answer;
  const isEvents = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  let bytes = 0;
  let previous = 0;
  let isBlank = true;

  function countEvents(chunk: Uint8Array): void {
    for (const byte of chunk) {
      bytes += 1;
      if (bytes > maxMessageBytes) return;
      const isEnd = byte === lineFeed || byte === carriageReturn;
      // the second half of a line end
      const isHalf = byte === lineFeed && previous === carriageReturn;
      if (isEnd && !isHalf && isBlank) bytes = 0;
      if (!isHalf) isBlank = isEnd;
      previous = byte;
    }
  }

  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (isEvents) countEvents(chunk);
      else bytes += chunk.length;
      if (bytes > maxMessageBytes)
        throw new SluiceError(
          "protocol",
          `client: the server's answer has more than ${maxMessageBytes} bytes`,
        );
      controller.enqueue(chunk);
    },
  });
  return new Response(body.pipeThrough(bounded), { status, statusText, headers });
}
