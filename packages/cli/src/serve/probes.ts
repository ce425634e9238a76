import type { IncomingMessage, RequestListener, Server, ServerResponse } from "node:http";

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

function isProbe({ method, url }: IncomingMessage): boolean {
  return (method === "GET" || method === "HEAD") && (url === "/healthz" || url === "/readyz");
}

function answerProbe(response: ServerResponse, isGood: boolean): void {
  const headers = {
    "content-type": "text/plain",
    "cache-control": "no-store",
    "x-content-type-options": "nosniff",
  };
  response.writeHead(isGood ? 200 : 503, headers).end(isGood ? "ok\n" : "not ready\n");
}
