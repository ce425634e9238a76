import { lookup as systemLookup, type LookupAddress } from "node:dns";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { SluiceError } from "@sluice/core";
import { classifyAddress } from "./classify-address.ts";
import type { Exchange, HopAnswer, HopRequest, Reach } from "./exchange.ts";
import { flowOf } from "./http-flow.ts";
import { createInletAgents } from "./socket-inlet.ts";

/**
 * An exchange over Node's own HTTP client, which reports every truncated body and touches none.
 * With `reach: "public"` the address that is connected to is checked, not the name. Environment
 * proxies are not used: behind one, nobody could check addresses.
 */
export function createHttpExchange(lookup: typeof systemLookup = systemLookup): Exchange {
  // a connection that was allowed to go anywhere must never be found by a guarded request
  const agents = { any: createAgents(), public: createAgents(createGuard(lookup)) };

  async function exchange(request: HopRequest): Promise<HopAnswer> {
    const { url, reach, signal } = request;
    signal.throwIfAborted();
    ensureReach(url, reach);
    const response = await send(request, agents[reach]);
    return {
      status: response.statusCode as number,
      headers: headersOf(response),
      framing: framingOf(response),
      ...(response.socket.remoteAddress && { address: response.socket.remoteAddress }),
      body: flowOf(response, signal),
    };
  }
  return exchange;
}

type Agents = ReturnType<typeof createInletAgents>;

// idle connections are kept for the next hop, not for ever
const idleMs = 2_000;

function createAgents(guard?: LookupFunction): Agents {
  return createInletAgents({
    keepAlive: true,
    timeout: idleMs,
    ...(guard && { lookup: guard }),
  });
}

/** A resolver that gives addresses of the public internet or none at all. */
function createGuard(lookup: typeof systemLookup): LookupFunction {
  return (hostname, options, callback) => {
    lookup(hostname, { ...options, all: true }, (error, addresses) => {
      if (error) return callback(error, "");
      const found: LookupAddress[] = addresses;
      const [first] = found;
      if (!first || found.some(({ address }) => classifyAddress(address) !== "public"))
        return callback(notPublic(hostname), "");
      if (options.all) return callback(null, found);
      return callback(null, first.address, first.family);
    });
  };
}

// a resolver is never asked about a host that is an address already
function ensureReach(url: URL, reach: Reach): void {
  const kind = classifyAddress(url.hostname);
  if (reach === "public" && kind !== undefined && kind !== "public") throw notPublic(url.hostname);
}

function notPublic(host: string): SluiceError {
  return new SluiceError(
    "untrusted",
    `client: ${host} is no address of the public internet, where the MCP server is`,
  );
}

function send(request: HopRequest, agents: Agents): Promise<IncomingMessage> {
  const { method, url, headers, body, signal, connectMs } = request;
  return new Promise((resolve, reject) => {
    const secure = url.protocol === "https:";
    const outgoing = (secure ? httpsRequest : httpRequest)(url, {
      method,
      headers: {
        // not where a page could send it: an own one would need a preflight, which few servers allow
        "user-agent": "sluice",
        ...headers,
        ...(body !== undefined && { "content-length": Buffer.byteLength(body) }),
      },
      agent: secure ? agents.https : agents.http,
      signal,
      maxHeaderSize: 16_384,
    });
    outgoing.once("socket", (socket) => limitConnect(socket, secure, connectMs));
    let answered = false;
    outgoing.once("response", (response) => {
      answered = true;
      resolve(response);
    });
    outgoing.on("error", (error: NodeJS.ErrnoException) => {
      // the body tells whoever reads it
      if (answered) return;
      if (signal.aborted) reject(signal.reason);
      // the server closed an idle connection just as it was taken up again
      else if (outgoing.reusedSocket && error.code === "ECONNRESET") resolve(send(request, agents));
      else if (SluiceError.is(error)) reject(error);
      else reject(unreachable(url, error));
    });
    // an answer that is none of ours, as 101 is, ends in neither of the two
    outgoing.once("close", () =>
      reject(signal.aborted ? signal.reason : unreachable(url, new Error("no answer came"))),
    );
    outgoing.end(body);
  });
}

function limitConnect(socket: Socket, secure: boolean, connectMs: number): void {
  if (!socket.connecting) return;
  const late = setTimeout(
    () => socket.destroy(new SluiceError("timeout", "client: no connection in time")),
    connectMs,
  );
  socket.once(secure ? "secureConnect" : "connect", () => clearTimeout(late));
  socket.once("close", () => clearTimeout(late));
}

function unreachable(url: URL, error: NodeJS.ErrnoException): SluiceError {
  const malformed = error.code?.startsWith("HPE_");
  return malformed
    ? new SluiceError("protocol", `client: ${url.origin} sent malformed HTTP`, { cause: error })
    : new SluiceError("unavailable", `client: ${url.origin} could not be reached`, {
        cause: error,
      });
}

function headersOf({ rawHeaders }: IncomingMessage): Headers {
  const headers = new Headers();
  for (let at = 0; at < rawHeaders.length; at += 2) {
    try {
      headers.append(rawHeaders[at] as string, rawHeaders[at + 1] as string);
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
