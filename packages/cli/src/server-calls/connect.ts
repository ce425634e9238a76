import {
  Client,
  StreamableHTTPClientTransport,
  type Transport,
} from "@modelcontextprotocol/client";
import { ensureTrustedOrigins, streamingCapabilities, withStreaming } from "@sluice/client";
import type { FileSender } from "@sluice/client/uploads";
import { abortable, onAbort } from "@sluice/core/async";
import { proxyFor } from "@sluice/core/node";
import { createWebSocketTransport } from "@sluice/transport-ws/client/node";
import { ensureConfidential } from "@sluice/core";
import { Advice, fault } from "../terminal/failure.ts";
import { version } from "../terminal/version.ts";
import { boundAnswers } from "./bound-answers.ts";
import { callServer, type ServerCall } from "./call-server.ts";

/** How to reach a server. */
export interface ConnectOptions {
  /** Bearer token. */
  readonly token?: string | undefined;
  readonly signal: AbortSignal;
}

/** A connection to an MCP server. */
export interface ServerConnection extends ServerCall {
  readonly client: Client;
}

/** Connects to an MCP server; close the client when done. `files` answers requests for files. */
export async function connect(
  server: string,
  { token, signal }: ConnectOptions,
  files?: Pick<FileSender<never>, "extend">,
): Promise<ServerConnection> {
  const transport = await transportTo(parseAddress(server, token), token);
  const client = new (files?.extend(Client) ?? Client)(
    { name: "sluice", version },
    { capabilities: streamingCapabilities(), versionNegotiation: { mode: "auto" } },
  );
  const connection = { client, server, signal };
  // the SDK looks at its signal neither while a transport opens a connection nor at every step after that
  const removeListener = onAbort(signal, () => void transport.close());
  try {
    await callServer(connection, () => abortable(client.connect(transport, { signal }), signal));
  } finally {
    removeListener();
  }
  return connection;
}

async function transportTo(url: URL, token: string | undefined): Promise<Transport> {
  if (url.protocol.startsWith("ws"))
    return createWebSocketTransport(url, token === undefined ? {} : { token });
  const headers = token === undefined ? {} : { authorization: `Bearer ${token}` };
  // the fetch of Node knows no proxies, and this one takes its time to load
  const fetch = proxyFor(url) && (await import("@sluice/bridge")).serverFetch;
  const streaming = withStreaming(fetch, "node");
  return new StreamableHTTPClientTransport(url, {
    fetch: async (input, init) => boundAnswers(await streaming(input, init)),
    requestInit: { headers },
  });
}

function parseAddress(address: string, token: string | undefined): URL {
  const url = URL.canParse(address) ? new URL(address) : undefined;
  if (
    url === undefined ||
    !/^(?:https?|wss?):$/.test(url.protocol) ||
    url.username !== "" ||
    url.password !== ""
  )
    throw fault(
      "invalid_argument",
      `${JSON.stringify(address)} is no server address`,
      "write it like http://127.0.0.1:2532/mcp",
    );
  if (token !== undefined) ensureConfidential("client", url);
  return url;
}

/** Throws for a `--trust` that is no origin, before anything is sent. */
export function ensureTrust(trust: readonly string[] = []): void {
  try {
    ensureTrustedOrigins(trust);
  } catch (error) {
    const advice = "write it like --trust https://cdn.example.com, or https://*.example.com";
    throw new Advice(error, advice);
  }
}
