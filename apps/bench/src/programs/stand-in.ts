/** Small servers that stand before others: `node stand-in.js KIND URL …`. */
import { createHash } from "node:crypto";
import { Agent, createServer as createHttpServer, request as send } from "node:http";
import { connect, createServer, type Server, type Socket } from "node:net";
import { listen, wayOf } from "../lib/program.ts";

const [kind, address = "", ...args] = process.argv.slice(2);
const target = new URL(address);

const kinds: Readonly<Record<string, () => Server>> = {
  /** The hub of Hugging Face as far as a download of one file needs it: `FILE SIZE`. Files redirect to the URL, as in LFS. */
  hub() {
    const [file = "", size = "0"] = args;
    const commit = createHash("sha1").update(file).digest("hex");
    const etag = `"${createHash("sha256").update(file).digest("hex")}"`;
    return createHttpServer((request, response) => {
      if (request.url?.startsWith("/api/")) {
        const siblings = [{ rfilename: file }];
        response.setHeader("content-type", "application/json");
        return response.end(JSON.stringify({ id: "bench/model", sha: commit, siblings }));
      }
      const headers = {
        location: `${target.origin}/${file}`,
        etag,
        "x-repo-commit": commit,
        "x-linked-etag": etag,
        "x-linked-size": size,
      };
      return response.writeHead(302, headers).end();
    });
  },
  /** Counts the bytes of bodies to and from a storage service. `/counted` tells them since the last time; listings are left out. */
  count() {
    const agent = new Agent({ keepAlive: true });
    let bytes = 0;
    const count = (chunk: Buffer): void => void (bytes += chunk.byteLength);
    const server = createHttpServer((request, response) => {
      const { method, url = "/", headers } = request;
      if (url === "/counted") {
        response.end(`${bytes}`);
        bytes = 0;
        return;
      }
      const place = { agent, host: target.hostname, port: target.port };
      const forwarded = send({ ...place, method, path: url, headers });
      forwarded.on("response", (answer) => {
        response.writeHead(answer.statusCode ?? 502, answer.rawHeaders);
        // names are no content
        if (!/[?&](list-type=2|comp=list)(&|$)/.test(url)) answer.on("data", count);
        answer.pipe(response);
      });
      forwarded.on("error", () => response.destroy());
      response.on("close", () => forwarded.destroy());
      request.on("data", count);
      request.pipe(forwarded);
    });
    server.requestTimeout = 0;
    return server;
  },
  /** The least that Node can do to pass an object on: every connection gets the answer to one GET of the URL. */
  proxy: () =>
    createServer((client) => {
      client.once("data", () => passOn(client));
    }),
};

const blockBytes = 256 * 1024;
const blocks = 4;

/** A socket to the service is read into blocks that are used again; nothing is parsed, checked or timed. */
function passOn(client: Socket): void {
  const ring = Array.from({ length: blocks }, () => Buffer.allocUnsafeSlow(blockBytes));
  let at = 0;
  let lent = 0;
  const service = connect({
    host: target.hostname,
    port: Number(target.port),
    onread: {
      buffer: () => ring[at]!,
      callback(count: number, block: Uint8Array) {
        at = (at + 1) % blocks;
        lent += 1;
        client.write(block.subarray(0, count), () => {
          lent -= 1;
          service.resume();
        });
        return lent < blocks;
      },
    },
  });
  service.write(
    `GET ${target.pathname}${target.search} HTTP/1.1\r\nHost: ${target.host}\r\nConnection: close\r\n\r\n`,
  );
  service.on("end", () => client.end());
  service.on("error", () => client.destroy());
  client.on("error", () => service.destroy());
  client.on("close", () => service.destroy());
}

listen(wayOf(kinds, kind)());
