import { createServer, type IncomingMessage, type Server, type ServerResponse } from "node:http";
import type { AddressInfo, Socket } from "node:net";

/** One of the three origins. */
type Origin = "graph" | "download" | "upload";

/** A request as it arrived. */
export interface SeenRequest {
  readonly origin: Origin;
  readonly method: string;
  /** Path and query, byte for byte. */
  readonly url: string;
  readonly headers: Readonly<Record<string, string | string[] | undefined>>;
}

/** Something that goes wrong. What it says about bodies concerns the bytes of downloads. */
export interface EmulatedFault {
  /** Which requests: tested against `GET graph /v1.0/…`, with the path and the query as they came. */
  readonly on: RegExp;
  /** How many of them. Default: 1. */
  readonly times?: number;
  /** Answer with this status, and `code` as the code of Graph. */
  readonly status?: number;
  readonly code?: string;
  /** Answer with 200 and this body, whatever was asked. */
  readonly json?: object;
  /** Do what is asked for, and break the connection in place of an answer. */
  readonly isLost?: boolean;
  /** Header `Retry-After` of that answer. */
  readonly retryAfter?: string;
  /** Header `WWW-Authenticate` of that answer. */
  readonly challenge?: string;
  /** Wait so long before the answer. */
  readonly delayMs?: number;
  /** Break the connection after so many bytes of the answer, or of the fragment that is sent. */
  readonly resetAfter?: number;
  /** Close the connection in order after so many bytes. */
  readonly truncateAfter?: number;
  /** Answer with 200 and this page, with its length or without. */
  readonly page?: { readonly type: string; readonly text: string; readonly isCounted: boolean };
  /** Name no version of the bytes, … */
  readonly isWithoutVersion?: boolean;
  /** … or another one. */
  readonly isOtherVersion?: boolean;
  /** Send so many bytes and then nothing. */
  readonly stallAfter?: number;
  /** Make the byte at this offset of the file wrong. */
  readonly corruptAt?: number;
  /** Answer a range with the whole file. */
  readonly ignoreRange?: boolean;
  /** Called before the answer: changes that happen at just that moment. */
  readonly meanwhile?: () => void;
}

/** The servers of the three origins: they record requests and apply faults. */
export interface Hosts {
  readonly requests: SeenRequest[];
  readonly faults: { fault: EmulatedFault; left: number }[];
  /** Listens on a port of its own. */
  listen(origin: Origin, handle: Handle): Promise<string>;
  /** Answers under way on the hosts of content. */
  readonly openAnswers: () => number;
  close(): Promise<void>;
}

type Handle = (
  request: IncomingMessage,
  response: ServerResponse,
  fault: EmulatedFault | undefined,
) => Promise<void> | void;

/** Creates the servers; each listens once `listen` is called for its origin. */
export function createHosts(
  onRequest: (line: string) => EmulatedFault | undefined = () => undefined,
): Hosts {
  const requests: SeenRequest[] = [];
  const faults: { fault: EmulatedFault; left: number }[] = [];
  const servers: Server[] = [];
  const sockets = new Set<Socket>();
  const timers = new Set<NodeJS.Timeout>();
  let open = 0;

  /** Takes the next fault for a request out of the queue. */
  const takeFault = (line: string): EmulatedFault | undefined => {
    const entry = faults.find(({ fault }) => fault.on.test(line));
    if (entry === undefined) return undefined;
    entry.left--;
    if (entry.left <= 0) faults.splice(faults.indexOf(entry), 1);
    return entry.fault;
  };
  const pause = (ms: number): Promise<void> =>
    new Promise((resolve) => {
      const timer = setTimeout(() => {
        timers.delete(timer);
        resolve();
      }, ms);
      timers.add(timer);
    });

  return {
    requests,
    faults,
    openAnswers: () => open,
    async listen(origin, handle) {
      const answer = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
        const { method = "", url = "", headers } = request;
        requests.push({ origin, method, url, headers });
        const line = `${method} ${origin} ${url}`;
        const fault = onRequest(line) ?? takeFault(line);
        if (fault?.delayMs !== undefined) await pause(fault.delayMs);
        fault?.meanwhile?.();
        if (fault?.isLost) loseAnswer(response);
        if (fault?.page !== undefined) sendPage(response, fault.page);
        else if (fault?.json !== undefined) sendJson(response, 200, fault.json);
        else if (fault?.status !== undefined)
          sendJson(response, fault.status, errorBody(fault.code ?? "generalException"), {
            ...(fault.retryAfter !== undefined && { "retry-after": fault.retryAfter }),
            ...(fault.challenge !== undefined && { "www-authenticate": fault.challenge }),
          });
        else await handle(request, response, fault);
      };
      const server = createServer((request, response) => {
        if (origin !== "graph") {
          open++;
          response.on("close", () => open--);
        }
        answer(request, response).catch(() => request.destroy());
      });
      server.on("connection", (socket) => {
        sockets.add(socket);
        socket.on("close", () => sockets.delete(socket));
      });
      servers.push(server);
      await new Promise<void>((resolve, reject) => {
        server.once("error", reject);
        server.listen(0, "127.0.0.1", resolve);
      });
      return `http://127.0.0.1:${(server.address() as AddressInfo).port}`;
    },
    async close() {
      for (const timer of timers) clearTimeout(timer);
      for (const socket of sockets) socket.destroy();
      await Promise.all(
        servers.map((server) => new Promise<void>((resolve) => server.close(() => resolve()))),
      );
    },
  };
}

/** An error as Graph writes it. */
export function errorBody(code: string, inner?: string): object {
  return {
    error: {
      code,
      message: "This text is for people and may change.",
      innerError: {
        code: inner,
        date: new Date().toISOString(),
        "request-id": crypto.randomUUID(),
      },
    },
  };
}

/** Answers with JSON, or with nothing. */
export function sendJson(
  response: ServerResponse,
  status: number,
  body: object | undefined,
  headers: Readonly<Record<string, string>> = {},
): void {
  const text = body === undefined ? "" : JSON.stringify(body);
  response.writeHead(status, {
    ...(text !== "" && { "content-type": "application/json" }),
    // 204 and 304 have none
    ...(status !== 204 && status !== 304 && { "content-length": Buffer.byteLength(text) }),
    "request-id": crypto.randomUUID(),
    ...headers,
  });
  response.end(text);
}

/** Breaks the connection where the answer would begin. */
function loseAnswer(response: ServerResponse): void {
  response.writeHead = () => response;
  response.end = () => {
    response.socket?.resetAndDestroy();
    return response;
  };
}

function sendPage(
  response: ServerResponse,
  { type, text, isCounted }: NonNullable<EmulatedFault["page"]>,
): void {
  const length = { "content-length": Buffer.byteLength(text) };
  response.writeHead(200, { "content-type": type, ...(isCounted && length) }).end(text);
}

/** The whole body of a request. */
export async function readAll(request: IncomingMessage): Promise<Buffer> {
  const parts: Buffer[] = [];
  for await (const part of request) parts.push(part as Buffer);
  return Buffer.concat(parts);
}
