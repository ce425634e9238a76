import {
  createServer,
  request,
  type IncomingHttpHeaders,
  type IncomingMessage,
  type Server,
  type ServerResponse,
} from "node:http";
import type { AddressInfo } from "node:net";

/** An answer, whose body still comes. */
export interface Reply {
  readonly status: number;
  readonly headers: IncomingHttpHeaders;
  readonly body: IncomingMessage;
}

/** One request over node:http. Follows nothing, repeats nothing. */
export function ask(
  method: string,
  url: string | URL,
  headers: Record<string, string>,
  body?: string | Buffer,
): Promise<Reply> {
  return new Promise((resolve, reject) => {
    const asking = request(url, { method, headers, agent: false, timeout: 20_000 }, (answer) =>
      resolve({ status: answer.statusCode!, headers: answer.headers, body: answer }),
    );
    asking.on("timeout", () => asking.destroy(new Error(`${method} had no answer for 20 s`)));
    asking.on("error", reject);
    asking.end(body);
  });
}

/** All bytes of a body. Rejects when the connection ends before the body does. */
export async function bytesOf(body: IncomingMessage, limit = 64 * 1024 * 1024): Promise<Buffer> {
  const chunks: Buffer[] = [];
  let size = 0;
  for await (const chunk of body as AsyncIterable<Buffer>) {
    size += chunk.length;
    if (size > limit) {
      body.destroy();
      throw new Error(`more than ${limit} bytes`);
    }
    chunks.push(chunk);
  }
  return Buffer.concat(chunks);
}

/** The media type without its parameters. */
export function typeOf(headers: IncomingHttpHeaders): string {
  return (headers["content-type"] ?? "").split(";")[0]!.trim().toLowerCase();
}

/** A server of node:http on a free port of the loopback. */
export interface Listening extends AsyncDisposable {
  readonly origin: string;
  readonly server: Server;
}

export async function listenHttp(
  handler: (asked: IncomingMessage, response: ServerResponse) => Promise<void>,
): Promise<Listening> {
  const server = createServer((asked, response) => {
    handler(asked, response).catch((fault: unknown) => response.destroy(fault as Error));
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  const { port } = server.address() as AddressInfo;
  return {
    origin: `http://127.0.0.1:${port}`,
    server,
    async [Symbol.asyncDispose]() {
      server.closeAllConnections();
      await new Promise((resolve) => server.close(resolve));
    },
  };
}
