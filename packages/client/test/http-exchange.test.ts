import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { expect, test } from "vitest";
import type { ByteFlow } from "../src/net/exchange.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";

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
  const get = await getterFor(server);
  await expect(get()).rejects.toMatchObject({
    code: expect.stringMatching(/unavailable|protocol/),
  });
  server.close();
});

test("a kept connection that is reset within the body is not asked for again behind the reader's back", async () => {
  let asked = 0;
  const server = createServer((socket) => {
    socket
      .on("error", () => {})
      .on("data", () => {
        asked++;
        const length = asked === 2 ? 1_000 : 2;
        socket.write(`HTTP/1.1 200 OK\r\ncontent-length: ${length}\r\n\r\nok`, () => {
          if (length > 2) setTimeout(() => socket.resetAndDestroy(), 20);
        });
      });
  }).listen(0, "127.0.0.1");
  const get = await getterFor(server);
  await readAll((await get()).body);
  await expect(readAll((await get()).body)).rejects.toMatchObject({ code: "interrupted" });
  await readAll((await get()).body);
  expect(asked).toBe(3);
  server.close();
});

async function getterFor(server: Server) {
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const signal = AbortSignal.timeout(10_000);
  const exchange = createHttpExchange();
  return () =>
    exchange({ method: "GET", url, headers: {}, signal, scope: "any", connectMs: 5_000 });
}

const readAll = (body: ByteFlow): Promise<void> => body.pump(() => undefined);
