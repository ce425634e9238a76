import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";
import { fault } from "../terminal/failure.ts";

const probePaths: readonly string[] = ["/healthz", "/readyz"];

/**
 * Answers the probes of a supervisor, and gives every other request to `requests`. `/healthz` is 200 while the process runs,
 * `/readyz` while it also takes requests, and 503 before and after. Their text is fixed: they need neither a token nor a
 * known Host.
 */
export function withProbes(server: Server, requests: RequestListener): RequestListener {
  return (request, response) => {
    if (!isProbe(request)) return requests(request, response);
    answerProbe(response, request.url === "/healthz" || server.listening);
  };
}

/** Answers everything before there is something to serve: a client that returns at once finds a server that is about to. */
export function answerNotYet(request: IncomingMessage, response: ServerResponse): void {
  if (isProbe(request)) return answerProbe(response, request.url === "/healthz");
  response.writeHead(503, { "retry-after": "1" }).end();
}

function isProbe({ method, url = "" }: IncomingMessage): boolean {
  return (method === "GET" || method === "HEAD") && probePaths.includes(url);
}

/** Throws for an endpoint whose requests probes would answer. */
export function ensureNoProbe(endpoint: string): void {
  const pathname = URL.canParse(endpoint) ? new URL(endpoint).pathname : "";
  if (probePaths.includes(pathname))
    throw fault(
      "invalid_argument",
      `${pathname} is not a path for an endpoint: probes of supervisors are answered there`,
      "pass --public-url with another path, such as /mcp",
    );
}

function answerProbe(response: ServerResponse, isGood: boolean): void {
  const headers = {
    "content-type": "text/plain",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  };
  response.writeHead(isGood ? 200 : 503, headers).end(isGood ? "ok\n" : "not ready\n");
}
