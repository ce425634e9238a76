import { lookup as systemLookup, type LookupAddress } from "node:dns";
import { request as httpRequest, type ClientRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { SluiceError } from "@sluice/core";
import { onAbort, systemClock, tlsFault } from "@sluice/core/internal";
import { createTunnelAgents, proxyFor, staleConnection } from "@sluice/core/internal/node";
import { createInletAgents, flowOfReadable, type InletAgents } from "@sluice/core/node";
import { scopeOf, classifyAddress } from "../../trust/classify-address.ts";
import type { HopExchange, HopAnswer, HopRequest } from "../exchange.ts";
import type { OutgoingBody } from "../outgoing-body.ts";
import { repairField } from "./repair-field.ts";

// idle connections are kept for the next hop, not for ever
const idleMs = 2_000;
/** Longest wait for a connection through a proxy. */
const tunnelMs = 10_000;

interface HttpExchangeOptions {
  readonly lookup?: typeof systemLookup;
  /** Leaves the proxies of the environment out. Default: they are used. */
  readonly direct?: boolean;
}

/**
 * An exchange over Node's HTTP client, which reports every truncated body and alters none. Bodies go out as fast as the
 * server takes them, and a response that comes early ends them. With `scope: "public"` the address that is connected to
 * is checked, not the name. A proxy of the environment is used: the proxy then looks names up, and its rules decide
 * where they lead.
 */
export function createHttpExchange({
  lookup = systemLookup,
  direct = false,
}: HttpExchangeOptions = {}): HopExchange {
  // a connection that was allowed to go anywhere must never be found by a guarded request
  const agents = { any: createAgents(), public: createAgents(createPublicLookup(lookup)) };
  const tunnels = createTunnelAgents({ keepAlive: true, timeout: idleMs }, tunnelMs);

  async function exchange(request: HopRequest): Promise<HopAnswer> {
    const { url, signal } = request;
    signal.throwIfAborted();
    const scope = scopeOf(request.scope);
    if (scope === "public") ensurePublic(url.hostname);
    if (direct || !proxyFor(url)) return send(request, agents[scope]);
    const answer = await send(request, tunnels);
    // the proxy's does not locate the server
    return { ...answer, address: undefined };
  }
  return exchange;
}

/** The exchange of this process: its connections are shared by every transfer. */
export const httpExchange: HopExchange = createHttpExchange();

function createAgents(guard?: LookupFunction): InletAgents {
  return createInletAgents({ keepAlive: true, timeout: idleMs, lookup: guard });
}

type Agents = Pick<InletAgents, "http" | "https">;

/** Interim answers mean progress. This many for one request mean an attack. */
const maxInterimAnswers = 10_000;

function send(request: HopRequest, agents: Agents): Promise<HopAnswer> {
  const { url, signal, progress } = request;
  return new Promise((resolve, reject) => {
    const outgoing = openRequest(request, agents);
    const body = bodyOf(request, outgoing);
    let connected = false;
    let interim = 0;
    let isSettled = false;
    let bodySent = Promise.resolve();

    function fail(error: unknown): void {
      if (isSettled) return;
      isSettled = true;
      body?.stop();
      reject(signal.aborted ? signal.reason : error);
      outgoing.destroy();
    }
    function faultOf(cause?: NodeJS.ErrnoException): SluiceError {
      return connected && body ? broken(url, cause) : unreachable(url, cause);
    }

    async function sendBody(sending: BodySending): Promise<void> {
      try {
        await sending.begin();
        if (!isSettled) progress?.sent();
      } catch (error) {
        fail(error);
      }
    }
    async function sendAgain(): Promise<HopAnswer> {
      // one read of the file must not fill the memory of another
      await bodySent;
      return send(request, agents);
    }

    limitConnect(outgoing, request, () => {
      connected = true;
      progress?.connected();
      if (!body) return progress?.sent();
      bodySent = sendBody(body);
    });
    outgoing.on("information", () => {
      if (++interim > maxInterimAnswers)
        fail(new SluiceError("protocol", `client: ${url.origin} answers without an end`));
    });
    outgoing.once("response", (response) => {
      if (isSettled) return;
      isSettled = true;
      // a server that has answered wants nothing more
      const sentAll = body?.stop() ?? true;
      if (!sentAll) response.once("close", () => outgoing.destroy());
      const answer = answerOf(response, sentAll, signal);
      // the next request may send the file again
      resolve(sentAll ? answer : bodySent.then(() => answer));
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      // the body reports what happens after the headers
      if (isSettled) return;
      // the server closed an idle connection just as it was reused: it received nothing
      const isStale = error.code === staleConnection && interim === 0;
      if (!isStale || signal.aborted) return fail(faultOf(error));
      isSettled = true;
      body?.stop();
      resolve(sendAgain());
    });
    // an unexpected answer, such as 101, ends in neither of the two
    outgoing.once("close", () => {
      if (!isSettled) fail(faultOf());
    });
  });
}

function openRequest({ method, url, headers, body, signal }: HopRequest, agents: Agents) {
  const secure = url.protocol === "https:";
  return (secure ? httpsRequest : httpRequest)(url, {
    method,
    headers: {
      // not where a page could send it: an own one would need a preflight, which few servers allow
      "user-agent": "sluice",
      ...headers,
      ...(body !== undefined && {
        "content-length": typeof body === "string" ? Buffer.byteLength(body) : body.length,
      }),
      ...(typeof body === "object" && isAnnounced(body) && { expect: "100-continue" }),
    },
    agent: secure ? agents.https : agents.http,
    signal,
    maxHeaderSize: 16_384,
  });
}

/** Sends what needs no waiting; else gives what sends the body. */
function bodyOf({ body, progress }: HopRequest, outgoing: ClientRequest): BodySending | undefined {
  if (typeof body !== "object") {
    outgoing.end(body);
    return undefined;
  }
  outgoing.flushHeaders();
  return createBodySending(outgoing, body, (bytes) => progress?.handed(bytes));
}

function limitConnect(
  outgoing: ClientRequest,
  { url, connectMs }: HopRequest,
  connected: () => void,
): void {
  outgoing.once("socket", (socket: Socket) => {
    if (!socket.connecting) return connected();
    const why = `client: ${url.origin}: no connection in time`;
    const expire = (): unknown => socket.destroy(new SluiceError("unavailable", why));
    const stopTimer = systemClock.schedule(expire, connectMs);
    socket.once("close", stopTimer);
    socket.once(url.protocol === "https:" ? "secureConnect" : "connect", () => {
      stopTimer();
      connected();
    });
  });
}

function answerOf(response: IncomingMessage, sentAll: boolean, signal: AbortSignal): HopAnswer {
  return {
    status: response.statusCode as number,
    headers: headersOf(response.rawHeaders),
    sentAll,
    framing: framingOf(response),
    address: response.socket.remoteAddress,
    body: flowOfReadable(response, { operation: "client", signal, divertBytes: 2 ** 20 }),
  };
}

/** The header fields of a response of Node's HTTP client, also those that it joins or drops itself. */
function headersOf(rawHeaders: readonly string[]): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    const [name, value] = [rawHeaders[at] as string, rawHeaders[at + 1] as string];
    try {
      headers.append(name, repairField(name, value));
    } catch {
      // a name or value that no header may have means nothing to us
    }
  }
  return headers;
}

function framingOf({ headers }: IncomingMessage): HopAnswer["framing"] {
  if (headers["transfer-encoding"] !== undefined) return "chunked";
  return headers["content-length"] === undefined ? "close" : "length";
}

/** The server may have received the request. */
function broken(url: URL, cause: NodeJS.ErrnoException | undefined): SluiceError {
  return (
    ownFault(url, cause) ??
    new SluiceError("interrupted", `client: the connection to ${url.origin} broke`, { cause })
  );
}

function unreachable(url: URL, cause: NodeJS.ErrnoException | undefined): SluiceError {
  return (
    ownFault(url, cause) ??
    tlsFault("client", url, cause) ??
    new SluiceError("unavailable", `client: ${url.origin} could not be reached`, {
      cause: cause ?? new Error("no answer came"),
    })
  );
}

function ownFault(url: URL, cause: NodeJS.ErrnoException | undefined): SluiceError | undefined {
  if (SluiceError.is(cause)) return cause;
  if (!cause?.code?.startsWith("HPE_")) return undefined;
  const why = `client: ${url.origin} sent malformed HTTP; is it an https: address?`;
  return new SluiceError("protocol", why, { cause });
}

/**
 * A resolver for the `lookup` option of sockets that gives addresses of the public internet or
 * fails with `untrusted`. A host that is an address already is never looked up: see {@link ensurePublic}.
 */
export function createPublicLookup(lookup: typeof systemLookup = systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "");
      const resolvedAddresses: LookupAddress[] = addresses;
      const [first] = resolvedAddresses;
      if (!first || resolvedAddresses.some(({ address }) => classifyAddress(address) !== "public"))
        return callback(notPublic(hostname), "");
      if (options.all) return callback(null, resolvedAddresses);
      return callback(null, first.address, first.family);
    });
  };
}

/** Throws `untrusted` for a host that is an address outside the public internet. */
export function ensurePublic(host: string): void {
  const kind = classifyAddress(host);
  if (kind !== undefined && kind !== "public") throw notPublic(host);
}

function notPublic(host: string): SluiceError {
  return new SluiceError(
    "untrusted",
    `client: ${host} is not an address of the public internet, where the MCP server is`,
  );
}

interface BodySending {
  /** Begins, once there is a connection. Resolves when it ended or was stopped; rejects with the error of a read. */
  begin(): Promise<void>;
  /** Stops sending. True when all of it went out. */
  stop(): boolean;
}

/** A body this large is sent only after the server agreed (RFC 9110 §10.1.1). */
const expectBytes = 2 ** 20;
/** Not every server supports that. */
const continueMs = 1_000;

/** True for a body that is sent once the server agrees, or says nothing. */
function isAnnounced(body: OutgoingBody): boolean {
  return body.length >= expectBytes;
}

/** Sends a body as fast as the server takes it. `handed` gets the bytes that went out. */
function createBodySending(
  outgoing: ClientRequest,
  body: OutgoingBody,
  handed: (bytes: number) => void,
): BodySending {
  const stop = new AbortController();
  let handedBytes = 0;

  /** A request destroyed before it has a connection never reports what became of its bytes. */
  function write(chunk: Uint8Array): Promise<void> {
    return new Promise((resolve) => {
      const done = (): void => {
        stop.signal.removeEventListener("abort", done);
        resolve();
      };
      stop.signal.addEventListener("abort", done, { once: true });
      // the request itself reports what went wrong with the connection
      outgoing.write(chunk, done);
      handedBytes += chunk.length;
      handed(chunk.length);
    });
  }

  /** Waits until the server wants the body, or does not say. */
  function mayBegin(): Promise<void> {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, continueMs);
      const goOn = (): void => {
        clearTimeout(timer);
        resolve();
      };
      outgoing.once("continue", goOn);
      onAbort(stop.signal, goOn);
    });
  }

  /** Each piece when the one before it went out, so that memory may be used again. */
  async function writePieces(): Promise<void> {
    for (const piece of body.pieces) {
      if (stop.signal.aborted) return;
      if (piece instanceof Uint8Array) {
        await write(piece);
        continue;
      }
      let at = piece.start;
      for await (const chunk of piece.file.chunks(piece.start, piece.end)) {
        if (stop.signal.aborted) return;
        piece.seen?.(chunk, at);
        at += chunk.length;
        await write(chunk);
      }
    }
  }

  return {
    async begin() {
      try {
        if (isAnnounced(body)) await mayBegin();
        await writePieces();
        if (!stop.signal.aborted) outgoing.end();
      } catch (error) {
        if (!stop.signal.aborted) throw error;
      }
    },
    stop() {
      stop.abort();
      const sentAll = handedBytes === body.length;
      if (sentAll && !outgoing.writableEnded) outgoing.end();
      return sentAll;
    },
  };
}
