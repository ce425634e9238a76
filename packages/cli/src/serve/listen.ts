import cluster from "node:cluster";
import { once } from "node:events";
import { createServer, type RequestListener, type Server } from "node:http";
import { createServer as createTlsServer } from "node:https";
import type { AddressInfo } from "node:net";
import { createHash, timingSafeEqual } from "node:crypto";
import type { AuthInfo } from "@modelcontextprotocol/server";
import { hardenServer, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { fault } from "../terminal/failure.ts";
import { answerNotYet, withProbes } from "./probes.ts";
import type { RefusalLog } from "./refusal-log.ts";

const mcpPath = "/mcp";

/** A certificate with those between it and its authority, and its key, in PEM. */
export interface ServedCertificate {
  readonly cert: string;
  readonly key: string;
}

/**
 * A server that listens, over TLS with a certificate, and answers 503 until it has something to serve. Rejects in a worker of
 * `node:cluster`.
 */
export async function listen(
  host: string,
  port: number,
  certificate?: ServedCertificate,
): Promise<Server> {
  if (cluster.isWorker)
    throw fault(
      "invalid_argument",
      "this command is one process, and cannot share its port and sessions with other cluster workers",
      "run it without a cluster: with pm2 in fork mode, without -i",
    );
  const checking = { connectionsCheckingInterval: 5_000 };
  const server: Server = hardenServer(
    certificate ? createTlsServer({ ...checking, ...certificate }) : createServer(checking),
  );
  server.on("request", answerNotYet);
  server.listen(port, host);
  await once(server, "listening").catch((error: NodeJS.ErrnoException) => {
    const message = `cannot listen on ${host}:${port} (${error.code})`;
    throw fault("unavailable", message, listenAdvice(error.code));
  });
  return server;
}

const listenAdvices: Readonly<Record<string, string>> = {
  EADDRINUSE:
    "another program has that port, perhaps an earlier run: end it with Ctrl-C there, or pass another --port",
  EACCES: "only an administrator may use that port: pass a --port from 1024",
  EADDRNOTAVAIL: "this machine does not have that address: pass another --host",
};

/** What to do where a server cannot listen, by the code of the system. */
export function listenAdvice(code = ""): string {
  return listenAdvices[code] ?? "pass another --host or --port";
}

/** Gives requests to a listener, in place of the answer of {@link listen}. */
export function beginToServe(server: Server, requests: RequestListener): void {
  server.off("request", answerNotYet);
  server.on("request", withProbes(server, requests));
}

export function portOf(server: Server): number {
  return (server.address() as AddressInfo).port;
}

/** URL of the endpoint of a server that no proxy stands in front of. */
export function endpointOf(host: string, port: number, hasTls = false): string {
  return `${hasTls ? "https" : "http"}://${nameIn(host)}:${port}${mcpPath}`;
}

/** A host as URLs spell it. */
function nameIn(host: string): string {
  return host.includes(":") ? `[${host}]` : host;
}

/** A caller that is let in: its token, and its user if there are several. */
interface AdmittedCaller {
  readonly authInfo?: AuthInfo;
}

/** Admits a caller by its token; `undefined` for a token of no user. Rejects if that cannot be decided now. */
export type Admit = (bearer: string) => Promise<AdmittedCaller | undefined>;

/** Compares a given token with that of the server, in constant time. */
export function admitByToken(token: string): Admit {
  return async (bearer) => (timingSafeEqual(digestOf(bearer), digestOf(token)) ? {} : undefined);
}

/** The token of a bearer header (RFC 6750 §2.1); empty if there is none. */
export function bearerIn(authorization: string | undefined): string {
  return /^bearer +(\S+)$/i.exec(authorization ?? "")?.[1] ?? "";
}

/** Lets requests in that carry a token, and answers 401 to all others, or 503 if tokens cannot be checked now. */
export function createAuthenticate(
  admit: Admit,
  refusals: RefusalLog,
): NonNullable<NodeHandlerOptions["authenticate"]> {
  return async (request, response, next, { kind }) => {
    const bearer = bearerIn(request.headers.authorization);
    let admission: AdmittedCaller | undefined;
    try {
      admission = await admit(bearer);
    } catch {
      response.writeHead(503, { "retry-after": "5" }).end();
      return;
    }
    if (admission) {
      if (admission.authInfo) request.auth = admission.authInfo;
      return next();
    }
    refusals.add({ address: request.socket.remoteAddress, kind, hasToken: bearer !== "" });
    // a client learns whether its token came at all (RFC 6750 section 3.1)
    const reason = bearer === "" ? "" : ', error="invalid_token"';
    response.writeHead(401, { "www-authenticate": `Bearer realm="sluice"${reason}` }).end();
  };
}

/** Of equal length whatever the text, as `timingSafeEqual` requires. */
function digestOf(text: string): Buffer {
  return createHash("sha256").update(text).digest();
}
