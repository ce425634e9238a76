import { once } from "node:events";
import { createServer, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";
import { SluiceError } from "@sluice/core";
import { defer, readTarget, within } from "@sluice/core/internal";

/** Where an authorization server sends the user's browser back to (RFC 8252 §7.3). */
export interface CallbackServer {
  readonly port: number;
  readonly url: string;
  /** The parameters of the redirect with the right `state`. Throws `timeout` after `timeoutMs`. */
  wait(timeoutMs: number, signal: AbortSignal): Promise<URLSearchParams>;
  close(): void;
}

const page = (words: string): string =>
  `<!doctype html><meta charset="utf-8"><title>Sluice</title><p>${words}</p>`;

/** Listens on the loopback address, at `port` or, when that is taken, at a free one. Only `state` is an answer. */
export async function openCallbackServer(state: string, port = 0): Promise<CallbackServer> {
  const came = defer<URLSearchParams>();
  const server = createServer((request, response) => {
    const { method, url = "" } = request;
    const isCallback = method === "GET" && readTarget(url) === "/callback";
    if (!isCallback) return answer(response, 404, "There is nothing here.");
    // another page of the browser may call this address, too
    const params = new URLSearchParams(url.slice("/callback".length));
    if (params.get("state") !== state)
      return answer(response, 400, "This is not the answer that was asked for.");
    answer(response, 200, "You are signed in. You can close this page.");
    came.resolve(params);
  });
  server.requestTimeout = 10_000;
  server.maxConnections = 16;
  server.listen(port, "127.0.0.1");
  try {
    await once(server, "listening");
  } catch (error) {
    if (port !== 0 && (error as NodeJS.ErrnoException).code === "EADDRINUSE")
      return openCallbackServer(state);
    throw error;
  }
  // a sign-in that is waited for keeps the process, its server alone does not
  server.unref();
  const { port: listeningPort } = server.address() as AddressInfo;
  return {
    port: listeningPort,
    url: `http://127.0.0.1:${listeningPort}/callback`,
    wait: (timeoutMs, signal) => within(came.promise, { timeoutMs, expired: notSignedIn, signal }),
    close: () => {
      server.close();
      server.closeAllConnections();
    },
  };
}

function notSignedIn(): SluiceError {
  return new SluiceError(
    "timeout",
    "bridge: the user did not sign in: call again to open the browser again",
  );
}

function answer(response: ServerResponse, status: number, words: string): void {
  response.writeHead(status, {
    "content-type": "text/html; charset=utf-8",
    "cache-control": "no-store",
    "content-security-policy": "default-src 'none'",
    connection: "close",
  });
  response.end(page(words));
}
