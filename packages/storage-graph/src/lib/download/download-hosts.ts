import { request as httpRequest, type IncomingMessage, type RequestOptions } from "node:http";
import { request as httpsRequest } from "node:https";
import { urlToHttpOptions } from "node:url";
import { systemClock } from "@sluice/core/internal";
import { createInletAgents, type InletAgents } from "@sluice/core/node";

const connectMs = 10_000;
const answerMs = 60_000;
/** Bytes that a socket reads at once for Node's HTTP parser. */
const readBytes = 128 * 1024;
// an open body holds its socket for as long as its reader likes: with a limit, some would wait for others
const agentOptions = { keepAlive: true, maxSockets: Infinity, highWaterMark: readBytes };

/** A GET of bytes. */
export interface HostRequest {
  /** Scheme and host. */
  readonly origin: string;
  /** Sent as it is. */
  readonly path: string;
  readonly headers: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal | undefined;
}

/**
 * Gets bytes from the hosts that download URLs name, by Node's own client: its responses can be read into lent memory,
 * which those of undici cannot.
 */
export class DownloadHosts {
  readonly #agents: InletAgents = createInletAgents(agentOptions, readBytes);

  /** Rejects with errors of the network. The response must be read or destroyed; an abort destroys it. */
  get(request: HostRequest): Promise<IncomingMessage> {
    return get(request, this.#agents);
  }

  close(): void {
    this.#agents.http.destroy();
    this.#agents.https.destroy();
  }
}

function get(
  { origin, path, headers, signal }: HostRequest,
  agents: InletAgents,
): Promise<IncomingMessage> {
  const host = urlToHttpOptions(new URL(origin));
  const isSecure = host.protocol === "https:";
  const options: RequestOptions = {
    protocol: host.protocol,
    hostname: host.hostname,
    port: host.port,
    path,
    headers,
    agent: isSecure ? agents.https : agents.http,
    signal,
  };
  return new Promise((resolve, reject) => {
    const outgoing = isSecure ? httpsRequest(options) : httpRequest(options);
    const giveUp = (): void => void outgoing.destroy(new Error("no answer came in time"));
    let stopTimer = systemClock.schedule(giveUp, connectMs);
    const connected = (): void => {
      stopTimer();
      if (!outgoing.destroyed) stopTimer = systemClock.schedule(giveUp, answerMs);
    };
    outgoing.once("socket", (socket) => {
      if (socket.connecting) socket.once(isSecure ? "secureConnect" : "connect", connected);
      else connected();
    });
    outgoing.once("response", (answer) => {
      stopTimer();
      // a body that is destroyed emits an error, which needs a listener
      answer.on("error", () => {});
      resolve(answer);
    });
    outgoing.on("error", reject);
    outgoing.once("close", () => {
      stopTimer();
      reject(new Error("the connection closed without an answer"));
    });
    outgoing.end();
  });
}
