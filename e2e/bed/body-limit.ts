import {
  createServer,
  request as send,
  type IncomingMessage,
  type ServerResponse,
} from "node:http";
import { listen, type Listening } from "./listen.ts";

/** What a proxy does with a request whose body is too large. */
export type RefuseBody = (request: IncomingMessage, response: ServerResponse) => void;

const page = "<html><body><h1>413 Request Entity Too Large</h1></body></html>";

/** Refusals as they occur. */
export const bodyRefusals: Readonly<Record<string, RefuseBody>> = {
  "reads the rest": (request, response) => {
    response.writeHead(413, { "content-type": "text/html" }).end(page);
    request.resume();
  },
  "answers after the rest": (request, response) => {
    request.resume().on("end", () => {
      response.writeHead(413, { "content-type": "text/html" }).end(page);
    });
  },
  "answers in JSON of its own, as API gateways": (request, response) => {
    response.writeHead(413, { "content-type": "application/json" });
    response.end('{"message":"Request Too Long"}');
    request.resume();
  },
  "closes the connection when it has answered": (request, response) => {
    response.writeHead(413, { "content-type": "text/html", connection: "close" }).end(page);
    request.socket.end();
  },
  "answers without a body": (request, response) => {
    response.writeHead(413, { "content-length": 0 }).end();
    request.resume();
  },
};

/** A proxy that limits the body of a request. */
export interface BodyLimit extends Listening {
  /** Bytes of each body of a PATCH or POST that passed, and that did not. */
  readonly passed: number[];
  readonly refused: number[];
}

/** Starts a proxy in front of `target` that passes bodies of at most `maxBytes` on as they come. */
export async function startBodyLimit(
  target: () => number,
  { maxBytes, refuse }: { readonly maxBytes: number; readonly refuse: RefuseBody },
): Promise<BodyLimit> {
  const passed: number[] = [];
  const refused: number[] = [];
  const server = createServer((request, response) => {
    const length = Number(request.headers["content-length"] ?? 0);
    (length > maxBytes ? refused : passed).push(length);
    if (length > maxBytes) return refuse(request, response);
    const { method, url: path, headers } = request;
    const outgoing = send({ host: "127.0.0.1", port: target(), method, path, headers });
    outgoing.on("error", () => response.destroy());
    outgoing.on("response", (answer) => {
      response.writeHead(answer.statusCode ?? 502, answer.headers);
      answer.pipe(response);
    });
    request.pipe(outgoing);
  });
  return { ...(await listen(server)), passed, refused };
}
