import {
  createServer,
  request as send,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { gzipSync } from "node:zlib";
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

/** Passes a response on in another way. */
export type Change = (answer: IncomingMessage, response: ServerResponse) => true | Promise<true>;

/** Passes a response on with another body. */
export async function rewrite(
  answer: IncomingMessage,
  response: ServerResponse,
  change: (body: Buffer) => Buffer | string,
  more: Record<string, string> = {},
): Promise<true> {
  const body = change(await buffer(answer));
  const { "content-length": _, "transfer-encoding": __, ...headers } = answer.headers;
  response.writeHead(answer.statusCode ?? 502, { ...headers, ...more }).end(body);
  return true;
}

export const pack: Change = (answer, response) =>
  rewrite(answer, response, gzipSync, { "content-encoding": "gzip" });

/** Breaks the connection after 1,000 bytes. */
export const cut: Change = (answer, response) => {
  response.writeHead(200, answer.headers);
  answer.once("data", (chunk: Buffer) => {
    response.write(chunk.subarray(0, 1_000), () => response.destroy());
  });
  return true;
};

/** Passes a response on 1.5 s late, as a whole. */
export const holdBack: Change = async (answer, response) => {
  await new Promise((resolve) => setTimeout(resolve, 1_500));
  return rewrite(answer, response, (body) => body);
};
