/**
 * The least that Node can do to pass an object on: `node bare-proxy.js URL`. A socket to the service is read into blocks
 * that are used again, and they are written to the socket of the client; nothing is parsed, checked or timed. Every
 * connection gets the answer to one GET of the URL. Prints its port as a line of JSON when it listens.
 */
import { connect, createServer, type AddressInfo, type Socket } from "node:net";

const url = new URL(process.argv[2] ?? "");
const blockBytes = 256 * 1024;
const blocks = 4;

function passOn(client: Socket): void {
  const ring = Array.from({ length: blocks }, () => Buffer.allocUnsafeSlow(blockBytes));
  let at = 0;
  let lent = 0;
  const service = connect({
    host: url.hostname,
    port: Number(url.port),
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
    `GET ${url.pathname}${url.search} HTTP/1.1\r\nHost: ${url.host}\r\nConnection: close\r\n\r\n`,
  );
  service.on("end", () => client.end());
  service.on("error", () => client.destroy());
  client.on("error", () => service.destroy());
  client.on("close", () => service.destroy());
}

const server = createServer((client) => {
  client.once("data", () => passOn(client));
});
server.listen(0, "127.0.0.1", () => {
  console.log(JSON.stringify({ port: (server.address() as AddressInfo).port }));
});
