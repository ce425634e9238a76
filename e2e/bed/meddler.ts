import {
  createServer,
  request as send,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { buffer } from "node:stream/consumers";
import { pipeline } from "node:stream/promises";
import { listen, type Listening } from "./listen.ts";

/** One request that passes through, with the server's answer to it. */
export interface Exchange {
  readonly request: IncomingMessage;
  readonly body: Buffer;
  /** The answer as the server gave it, body unread. */
  readonly answer: IncomingMessage;
  readonly response: ServerResponse;
}

/** A proxy that can say something else than the server did. */
export interface Meddler extends Listening {
  /** What to do with the next exchanges; returns false to let one pass. */
  meddle: (exchange: Exchange) => boolean | Promise<boolean>;
  readonly requests: readonly IncomingMessage[];
}

/** Headers and body of the answer as they came. */
export async function passOn({ answer, response }: Exchange): Promise<void> {
  response.writeHead(answer.statusCode ?? 502, answer.headers);
  await pipeline(answer, response);
}

/** Starts a meddler before `target`; `edit` changes every answer before it is looked at. */
export async function createMeddler(
  target: () => number,
  edit: (answer: IncomingMessage) => void = () => {},
): Promise<Meddler> {
  const requests: IncomingMessage[] = [];
  const server = createServer((request, response) => {
    requests.push(request);
    forward(request, response).catch(() => response.destroy());
  });
  async function forward(request: IncomingMessage, response: ServerResponse) {
    const body = await buffer(request);
    const { method, url, headers } = request;
    const answer = await new Promise<IncomingMessage>((resolve, reject) => {
      const outgoing = send({ port: target(), host: "127.0.0.1", method, path: url, headers });
      outgoing.on("response", resolve).on("error", reject).end(body);
      response.on("close", () => outgoing.destroy());
    });
    edit(answer);
    const exchange = { request, body, answer, response };
    if (!(await meddler.meddle(exchange))) await passOn(exchange);
  }
  const meddler: Meddler = { ...(await listen(server)), requests, meddle: () => false };
  return meddler;
}
