import { once } from "node:events";
import { createServer, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { definedMembers, ensureKnownOptions } from "@sluice/core/internal";
import type { Sluice } from "@sluice/server";
import {
  composeParts,
  handlerParts,
  type CloseOptions,
  type CreateServer,
  type HandlerParts,
} from "../compose/create-handler.ts";
import { drainServer, type Drained } from "./drain-server.ts";
import { hardenServer, type HardenServerOptions } from "./harden-server.ts";
import { toNodeHandler, type NodeHandlerOptions } from "./node-handler.ts";

/** Options of {@link serve}. */
export interface ServeOptions extends HandlerParts, NodeHandlerOptions, HardenServerOptions {
  /** Port to listen on. Default: that of a loopback `endpoint` with `http:`; for any other, leaving it out is a `TypeError`. */
  readonly port?: number;
  /** Address to listen on. Default: the host of a loopback `endpoint`, else `127.0.0.1`, for a proxy on this machine. */
  readonly host?: string;
}

/** A server that listens. */
export interface Serving {
  /** The public URL of the endpoint. */
  readonly url: string;
  readonly port: number;
  readonly server: Server;
  /**
   * Drains the server as `drainServer` does (default of `deadlineMs`: 30,000), then closes sessions, streams, uploads
   * and the Sluice, and what the Sluice was given, each once nothing uses it. Idempotent.
   */
  close(options?: CloseOptions): Promise<Drained>;
}

/**
 * Serves MCP over HTTP with everything that belongs to it: combines `createHandler`, `toNodeHandler` and
 * `hardenServer`. Resolves when it listens.
 *
 * ```ts
 * const running = await serve(sluice, () => sluice.attach(new McpServer({ name: "demo", version: "1.0.0" })));
 * process.once("SIGTERM", () => void running.close());
 * ```
 *
 * Rejects with the error of the socket, such as `EADDRINUSE`, and with a `TypeError` for options that cannot work.
 */
export async function serve(
  sluice: Sluice,
  create: CreateServer,
  options: ServeOptions = {},
): Promise<Serving> {
  ensureKnownOptions("serve", options, serveOptions);
  const {
    port = loopbackPort(sluice),
    host = loopbackHost(sluice) ?? "127.0.0.1",
    connections,
    keepAliveTimeoutMs,
    authenticate,
    bearer,
    bufferedBytes,
    minBytesPerSecond,
    offload,
    onError,
    requests,
    idleMs,
    ...parts
  } = options;
  if (port === undefined)
    throw new TypeError(
      `serve: pass port, where this process listens; clients connect to ${sluice.endpoint.url}, which a proxy forwards to it`,
    );
  const composed = composeParts("serve", { ...parts, sluice, create });
  const outflow = { minBytesPerSecond, idleMs };
  const limits = { requests, bufferedBytes, ...outflow };
  const nodeHandler = toNodeHandler(
    composed.handler,
    definedMembers({ authenticate, bearer, offload, onError, ...limits }),
  );
  const bounds = definedMembers({ connections, keepAliveTimeoutMs });
  const server = hardenServer(createServer(nodeHandler), bounds);
  server.listen(port, host);
  await once(server, "listening");

  let closing: Promise<Drained> | undefined;
  async function close({ deadlineMs = 30_000, ...given }: CloseOptions = {}): Promise<Drained> {
    const limit = { deadlineMs, ...given };
    try {
      const [drained] = await Promise.all([drainServer(server, limit), composed.drain(limit)]);
      return drained;
    } finally {
      await composed.close();
    }
  }
  return {
    url: sluice.endpoint.url,
    port: (server.address() as AddressInfo).port,
    server,
    close: (given) => (closing ??= close(given)),
  };
}

/** The port of a loopback endpoint; with `https:` something in front has it. */
function loopbackPort({ endpoint: { url, isLoopback } }: Sluice): number | undefined {
  const { protocol, port } = new URL(url);
  return isLoopback && protocol === "http:" ? Number(port || 80) : undefined;
}

function loopbackHost({ endpoint: { url, isLoopback } }: Sluice): string | undefined {
  return isLoopback ? new URL(url).hostname.replace(/^\[(.*)\]$/, "$1") : undefined;
}

const serveOptions: Readonly<Record<keyof ServeOptions, true>> = {
  ...handlerParts,
  authenticate: true,
  bearer: true,
  bufferedBytes: true,
  connections: true,
  host: true,
  idleMs: true,
  keepAliveTimeoutMs: true,
  minBytesPerSecond: true,
  offload: true,
  onError: true,
  port: true,
  requests: true,
};
