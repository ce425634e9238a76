import { lookup as systemLookup } from "node:dns";
import { request as httpRequest, type IncomingMessage } from "node:http";
import { request as httpsRequest } from "node:https";
import type { LookupFunction, Socket } from "node:net";
import { SluiceError, tlsFault } from "@sluice/core";
import type { Exchange, HopAnswer, HopRequest } from "./exchange.ts";
import { flowOf } from "./http-flow.ts";
import { createPublicLookup, ensurePublic } from "./public-lookup.ts";
import { headersOf } from "./raw-headers.ts";
import { createInletAgents } from "./socket-inlet.ts";

/**
 * An exchange over Node's own HTTP client, which reports every truncated body and touches none.
 * With `scope: "public"` the address that is connected to is checked, not the name. Environment
 * proxies are not used: behind one, nobody could check addresses.
 */
export function createHttpExchange(lookup: typeof systemLookup = systemLookup): Exchange {
  // a connection that was allowed to go anywhere must never be found by a guarded request
  const agents = { any: createAgents(), public: createAgents(createPublicLookup(lookup)) };

  async function exchange(request: HopRequest): Promise<HopAnswer> {
    const { url, scope, signal } = request;
    signal.throwIfAborted();
    if (scope === "public") ensurePublic(url.hostname);
    const response = await send(request, agents[scope]);
    return {
      status: response.statusCode as number,
      headers: headersOf(response.rawHeaders),
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
  const cause = { cause: error };
  if (error.code?.startsWith("HPE_"))
    return new SluiceError(
      "protocol",
      `client: ${url.origin} sent malformed HTTP; is it an https: address?`,
      cause,
    );
  return (
    tlsFault("client", url, error) ??
    new SluiceError("unavailable", `client: ${url.origin} could not be reached`, cause)
  );
}

function framingOf({ headers }: IncomingMessage): HopAnswer["framing"] {
  if (headers["transfer-encoding"] !== undefined) return "chunked";
  return headers["content-length"] === undefined ? "close" : "length";
}
