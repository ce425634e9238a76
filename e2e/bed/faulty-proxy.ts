import {
  createServer,
  request as send,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { listen, type Listening } from "./listen.ts";

/** What a proxy does wrong. Without any of it, it passes everything on as it comes. */
export interface Faults {
  /** Changes the headers of a request. */
  readonly headers?: (headers: IncomingHttpHeaders) => void;
  /** Another path for a request. */
  readonly path?: (path: string) => string;
  /** Answers in place of the server; false lets the request pass. */
  readonly answer?: (request: IncomingMessage, response: ServerResponse) => boolean;
  /** Passes the server's answer on in its own way; false leaves it to the proxy. */
  readonly passOn?: (
    answer: IncomingMessage,
    response: ServerResponse,
    request: IncomingMessage,
  ) => boolean | Promise<boolean>;
}

/** Starts a proxy in front of `target`. */
export async function startFaultyProxy(
  target: () => number,
  { headers: change, path = (text) => text, answer: refuse, passOn }: Faults,
): Promise<Listening> {
  const server = createServer((request, response) => {
    response.on("error", () => {});
    forward(request, response).catch(() => response.destroy());
  });
  async function forward(request: IncomingMessage, response: ServerResponse): Promise<void> {
    const body = await buffer(request);
    if (refuse?.(request, response)) return;
    const headers = { ...request.headers };
    change?.(headers);
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = send({
        host: "127.0.0.1",
        port: target(),
        method: request.method,
        path: path(request.url ?? "/"),
        headers,
      });
      outgoing.on("response", resolve).on("error", reject).end(body);
      response.on("close", () => outgoing.destroy());
    });
    answer.on("error", () => response.destroy());
    if (await passOn?.(answer, response, request)) return;
    response.writeHead(answer.statusCode ?? 502, answer.headers);
    response.flushHeaders();
    answer.pipe(response);
  }
  return listen(server);
}
