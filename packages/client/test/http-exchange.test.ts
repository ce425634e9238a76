import { createServer, type AddressInfo } from "node:net";
import { once } from "node:events";
import { expect, test } from "vitest";
import { createHttpExchange } from "../src/lib/http-exchange.ts";

test.each([
  [
    "switches protocols",
    "HTTP/1.1 101 Switching Protocols\r\nconnection: upgrade\r\nupgrade: x\r\n\r\n",
  ],
  ["leaves after the interim answer", "HTTP/1.1 103 Early Hints\r\n\r\n"],
  ["leaves within the headers", "HTTP/1.1 200 OK\r\ncontent-le"],
])("a server that %s instead of answering is an error, not a wait", async (_what, answer) => {
  const server = createServer((socket) => {
    socket.on("error", () => {}).once("data", () => socket.end(answer));
  }).listen(0, "127.0.0.1");
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const signal = AbortSignal.timeout(10_000);
  const asking = createHttpExchange()({
    method: "GET", url, headers: {}, signal, reach: "any", connectMs: 5_000,
  }); // prettier-ignore
  await expect(asking).rejects.toMatchObject({
    code: expect.stringMatching(/unavailable|protocol/),
  });
  server.close();
});
