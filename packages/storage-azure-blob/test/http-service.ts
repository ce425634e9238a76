import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import type { AddressInfo } from "node:net";

/** A server on a free port of this machine that keeps count. */
export interface HttpService extends AsyncDisposable {
  /** Its origin, without a slash at the end. */
  readonly url: string;
  /** Every request so far: method and URL as they came. */
  readonly requests: readonly string[];
  /** Requests whose answer is not through. */
  countOpen(): number;
}

/** Answers one request; a rejection destroys the connection. */
export type Answer = (request: IncomingMessage, response: ServerResponse) => void | Promise<void>;

/** Starts a server on a free port. */
export async function startHttpService(answer: Answer): Promise<HttpService> {
  const requests: string[] = [];
  let open = 0;
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`);
    open++;
    response.on("close", () => open--);
    Promise.resolve(answer(request, response)).catch(() => response.destroy());
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    requests,
    countOpen: () => open,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      server.close();
      await once(server, "close");
    },
  };
}

/** A refusal of the service: the code in a header, and in XML if there is a body. */
export function refuse(
  { method }: IncomingMessage,
  response: ServerResponse,
  status: number,
  code: string | undefined,
  headers: Readonly<Record<string, string>> = {},
): void {
  const body = method === "HEAD" || code === undefined ? "" : `<Error><Code>${code}</Code></Error>`;
  response.writeHead(status, {
    "content-type": "application/xml",
    "x-ms-request-id": "8f0d1a6e",
    ...(code !== undefined && { "x-ms-error-code": code }),
    ...headers,
  });
  response.end(body);
}
