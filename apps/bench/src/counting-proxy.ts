/**
 * Stands before a storage service and counts the bytes of bodies: `node counting-proxy.js ORIGIN`.
 * `/counted` tells them since the last time; listings are left out. Prints its port as a line of JSON when it listens.
 */
import { Agent, createServer, request as send } from "node:http";
import type { AddressInfo } from "node:net";

/** What went through. */
export interface Counted {
  readonly bytes: number;
}

const target = new URL(process.argv[2] ?? "");
const agent = new Agent({ keepAlive: true });
const isListing = (url: string): boolean => /[?&](list-type=2|comp=list)(&|$)/.test(url);
let bytes = 0;
const count = (chunk: Buffer): void => void (bytes += chunk.byteLength);

const server = createServer((request, response) => {
  const { method, url = "/", headers } = request;
  if (url === "/counted") {
    response.end(JSON.stringify({ bytes } satisfies Counted));
    bytes = 0;
    return;
  }
  const isList = isListing(url);
  const place = { agent, host: target.hostname, port: target.port };
  const forwarded = send({ ...place, method, path: url, headers });
  forwarded.on("response", (answer) => {
    response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
    // names are no content
    if (!isList) answer.on("data", count);
    answer.pipe(response);
  });
  forwarded.on("error", () => response.destroy());
  response.on("close", () => forwarded.destroy());
  request.on("data", count);
  request.pipe(forwarded);
});
server.requestTimeout = 0;
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
