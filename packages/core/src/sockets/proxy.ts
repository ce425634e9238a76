import { Agent as HttpAgent, request as httpRequest, type AgentOptions } from "node:http";
import { Agent as HttpsAgent, request as httpsRequest } from "node:https";
import type { Socket } from "node:net";
import { connect as connectTls, type ConnectionOptions } from "node:tls";
import { systemClock } from "../async/clock.ts";
import { SluiceError, type SluiceErrorCode } from "../errors/error.ts";
import { isLoopbackHost } from "../headers/loopback-host.ts";
import { bareHost, portOf, ruledOptions } from "./server-rules.ts";

/** `origin` of errors of a proxy. */
export const proxyOrigin = "proxy";

/**
 * The proxy through which a URL is reached: `HTTPS_PROXY` for `https:` and `wss:`, or else, and for `http:`
 * and `ws:`, `HTTP_PROXY`; names in lower case come first, and an empty one does not count. Loopback
 * addresses, and hosts that `NO_PROXY` names, are reached directly. Throws `invalid_argument` for an invalid
 * proxy address.
 */
export function proxyFor(url: URL, env: NodeJS.ProcessEnv = process.env): URL | undefined {
  if (isLoopbackHost(url.hostname)) return undefined;
  const isSecure = url.protocol === "https:" || url.protocol === "wss:";
  const secure = isSecure ? (env["https_proxy"] ?? env["HTTPS_PROXY"]) : undefined;
  const text = secure ?? env["http_proxy"] ?? env["HTTP_PROXY"] ?? "";
  if (text === "" || isExcluded(url, env["no_proxy"] ?? env["NO_PROXY"] ?? "")) return undefined;
  const address = text.includes("://") ? text : `http://${text}`;
  const proxy = URL.canParse(address) ? new URL(address) : undefined;
  if (proxy && /^https?:$/.test(proxy.protocol)) return proxy;
  // never repeats it: it may hold a password
  throw new SluiceError(
    "invalid_argument",
    "proxy: HTTPS_PROXY or HTTP_PROXY is not an http: or https: address; write it like http://proxy.example:3128",
    { origin: proxyOrigin },
  );
}

/** `NO_PROXY` as most programs read it: `*`, or hosts with all below them, with or without a port. */
function isExcluded(url: URL, list: string): boolean {
  const hostname = bareHost(url.hostname);
  return list.split(/[,\s]+/).some((entry) => {
    if (entry === "*") return true;
    const [, named = entry, port] = /^(\[[^\]]*\]|[^:]*):(\d{1,5})$/.exec(entry) ?? [];
    const name = bareHost(named.replace(/^\*?\./, "").toLowerCase());
    if (name === "" || (port !== undefined && Number(port) !== portOf(url))) return false;
    return hostname === name || hostname.endsWith(`.${name}`);
  });
}

/** Where a tunnel ends. */
export interface TunnelEnd {
  readonly url: URL;
  /** Of the TLS to that end, for `https:` and `wss:`. */
  readonly tls?: ConnectionOptions | undefined;
}

/**
 * A connection to the end through a proxy, with TLS if the URL requires it. Plain HTTP is tunnelled
 * as well. One attempt, which ends within `timeoutMs` whatever the proxy does. Rejects with
 * `unavailable`, `permission_denied` if the proxy refuses, or with the fault of TLS.
 */
export function openTunnel(
  proxy: URL,
  { url, tls }: TunnelEnd,
  timeoutMs: number,
): Promise<Socket> {
  const end = `${url.hostname}:${portOf(url)}`;
  const name = `the proxy ${proxy.host}`;
  return new Promise((resolve, reject) => {
    let socket: Socket | undefined;
    const asking = (proxy.protocol === "https:" ? httpsRequest : httpRequest)({
      host: bareHost(proxy.hostname),
      port: portOf(proxy),
      method: "CONNECT",
      path: end,
      headers: { host: end, ...authorizationOf(proxy) },
      agent: false,
      maxHeaderSize: 16_384,
    });
    const fail = (error: Error): void => {
      stopTimer();
      asking.destroy();
      socket?.destroy();
      reject(error);
    };
    const stopTimer = systemClock.schedule(
      () => fail(proxyFault("unavailable", `${name} did not connect to ${end} in time`)),
      timeoutMs,
    );
    asking.once("connect", ({ statusCode = 0 }, opened: Socket, head: Buffer) => {
      socket = opened;
      socket.on("error", fail);
      const refusal = refusalOf(statusCode, name, end);
      if (refusal) return fail(refusal);
      // the server behind cannot have spoken first
      if (head.length > 0)
        return fail(proxyFault("protocol", `${name} sent more than its response to CONNECT`));
      const done = (): void => {
        stopTimer();
        resolve(socket as Socket);
      };
      if (!/^(?:https|wss):$/.test(url.protocol)) return done();
      const host = bareHost(url.hostname);
      const ruled = ruledOptions(host, portOf(url));
      const options = { servername: host, ...tls, ...ruled };
      socket = connectTls({ ...options, host, path: undefined, socket: opened });
      socket.once("secureConnect", done);
      socket.once("error", fail);
    });
    asking.on("error", (cause) => fail(closed(name, end, cause)));
    asking.once("close", () => {
      if (!socket) fail(closed(name, end));
    });
    asking.end();
  });
}

function closed(name: string, end: string, cause?: NodeJS.ErrnoException): SluiceError {
  const code = cause?.code ?? "no answer";
  return proxyFault(
    "unavailable",
    `${name} disconnected before it reached ${end} (${code})`,
    cause,
  );
}

function refusalOf(status: number, name: string, end: string): SluiceError | undefined {
  if (status >= 200 && status < 300) return undefined;
  if (status === 407)
    return proxyFault("permission_denied", `${name} requires a name and a password (HTTP 407)`);
  const code = status >= 400 && status < 500 ? "permission_denied" : "unavailable";
  return proxyFault(code, `${name} does not connect to ${end} (HTTP ${status})`);
}

function proxyFault(code: SluiceErrorCode, what: string, cause?: Error): SluiceError {
  return new SluiceError(code, `proxy: ${what}; check HTTPS_PROXY and NO_PROXY`, {
    cause,
    origin: proxyOrigin,
  });
}

function authorizationOf({ username, password }: URL): Record<string, string> {
  if (username === "" && password === "") return {};
  const pair = [username, password].map(decoded).join(":");
  return { "proxy-authorization": `Basic ${Buffer.from(pair).toString("base64")}` };
}

/** A password may hold a percent sign that encodes nothing. */
function decoded(text: string): string {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

interface TunnelAgents {
  readonly http: HttpAgent;
  readonly https: HttpsAgent;
}

/** Agents whose connections go through the proxy of their URL, each opened within `connectMs`. */
export function createTunnelAgents(options: AgentOptions, connectMs: number): TunnelAgents {
  return {
    http: tunnelled(new HttpAgent(options), "http:", connectMs),
    https: tunnelled(new HttpsAgent(options), "https:", connectMs),
  };
}

type OnConnected = (error: unknown, socket?: Socket) => void;

function tunnelled<A extends HttpAgent>(agent: A, protocol: string, connectMs: number): A {
  async function open({ host, port, ...tls }: ConnectionOptions): Promise<Socket> {
    const name = String(host).includes(":") ? `[${host}]` : host;
    const url = new URL(`${protocol}//${name}:${port}`);
    const proxy = proxyFor(url);
    if (!proxy) throw new Error(`${url.host} has no proxy`);
    return openTunnel(proxy, { url, tls }, connectMs);
  }
  const opener = agent as unknown as {
    createConnection: (options: ConnectionOptions, connected: OnConnected) => void;
  };
  opener.createConnection = (options, connected) => {
    open(options).then((socket) => connected(null, socket), connected);
  };
  return agent;
}
