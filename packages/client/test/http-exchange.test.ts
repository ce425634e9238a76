import type { ByteFlow } from "@sluice/core";
import { once } from "node:events";
import { createServer, type AddressInfo, type Server } from "node:net";
import { setTimeout } from "node:timers/promises";
import { expect, test } from "vitest";
import type { HopRequest } from "../src/net/exchange.ts";
import { createHttpExchange } from "../src/net/node/http-exchange.ts";
import type { ReadableFile } from "../src/net/outgoing-body.ts";

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
          if (length > 2) void setTimeout(20).then(() => socket.resetAndDestroy());
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

test("an answer that comes before all of a file went out is given when the file is no longer read", async () => {
  let isReading = false;
  const file: ReadableFile = {
    async *chunks(start, end) {
      isReading = true;
      try {
        for (let at = start; at < end; at++) {
          yield new Uint8Array(1);
          await setTimeout(20);
        }
      } finally {
        await setTimeout(100);
        isReading = false;
      }
    },
  };
  const server = createServer((socket) => {
    socket
      .on("error", () => {})
      .once("data", () => socket.write("HTTP/1.1 401 No\r\ncontent-length: 0\r\n\r\n"));
  }).listen(0, "127.0.0.1");
  const length = 1_000;
  const pieces = [{ file, start: 0, end: length }];
  const put = await getterFor(server, { method: "PUT", body: { length, pieces } });
  const { status, sentAll, body } = await put();
  expect({ status, sentAll, isReading }).toEqual({ status: 401, sentAll: false, isReading: false });
  body.cancel();
  server.close();
});

async function getterFor(server: Server, request: Partial<HopRequest> = {}) {
  await once(server, "listening");
  const url = new URL(`http://127.0.0.1:${(server.address() as AddressInfo).port}/`);
  const signal = AbortSignal.timeout(10_000);
  const exchange = createHttpExchange();
  return () =>
    exchange({
      method: "GET",
      url,
      headers: {},
      signal,
      scope: "any",
      connectMs: 5_000,
      ...request,
    });
}

const readAll = (body: ByteFlow): Promise<void> => body.pump(() => undefined);
