import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { hardenServer } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { listen } from "./serve.ts";

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

async function startHardened(maxConnections?: number) {
  let asked = 0;
  const server = createServer((req, res) => {
    asked++;
    res.end(String(Object.keys(req.headers).length));
  });
  const origin = await listen(
    hardenServer(server, maxConnections === undefined ? {} : { maxConnections }),
  );
  return { server, port: Number(new URL(origin).port), asked: () => asked };
}

/** Opens a connection, sends a text, and collects what comes until the server hangs up. */
function talk(port: number, text: string): { socket: Socket; said: Promise<string> } {
  const socket = connect(port, "127.0.0.1", () => socket.write(text));
  const said = new Promise<string>((resolve) => {
    let answer = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => void (answer += chunk));
    socket.on("error", () => {}).on("close", () => resolve(answer));
  });
  return { socket, said };
}

test("a hardened server waits for nobody for ever", async () => {
  const { server } = await startHardened();
  const { headersTimeout, requestTimeout, keepAliveTimeout } = server;
  expect([headersTimeout, requestTimeout, keepAliveTimeout]).toEqual([15_000, 0, 5_000]);
});

test("a pipeline of requests ends after the hundredth", async () => {
  const { server, port, asked } = await startHardened();
  server.keepAliveTimeout = 100; // nobody needs to wait for the end that comes anyway
  const said = await talk(port, get.repeat(150)).said;
  expect(said.match(/HTTP\/1\.1 200/g)).toHaveLength(100);
  expect(asked()).toBe(100);
});

test("headers of more than 16 KiB, or of more than 64 fields, are 431, and no listener hears of them", async () => {
  const { port, asked } = await startHardened();
  const large = `GET / HTTP/1.1\r\nHost: x\r\nRange: bytes=${"0-,".repeat(6_000)}\r\n\r\n`;
  expect(await talk(port, large).said).toMatch(/^HTTP\/1\.1 431 /);
  expect(asked()).toBe(0);
  const withFields = (count: number): string => {
    const more = Array.from({ length: count - 2 }, (_, n) => `x-${n}: 1\r\n`).join("");
    return `GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n${more}\r\n`;
  };
  for (const count of [65, 66, 96, 97, 128, 500])
    expect(await talk(port, withFields(count)).said).toMatch(/^HTTP\/1\.1 431 /);
  expect(asked()).toBe(0);
  expect(await talk(port, withFields(64)).said).toMatch(/^HTTP\/1\.1 200 .*\r\n64(\r\n|$)/s);
});

test.each([
  ["a request", "\r\n"],
  ["a request that waits for 100 Continue", "Expect: 100-continue\r\nContent-Length: 5\r\n\r\n"],
  ["an upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"],
])("two Host fields are 400: %s", async (_name, rest) => {
  const { server, port, asked } = await startHardened();
  let upgrades = 0;
  server.on("upgrade", (_request, socket) => {
    upgrades++;
    socket.destroy();
  });
  for (const other of ["Host: x", "HOST: y", "host: "])
    expect(await talk(port, `GET / HTTP/1.1\r\nHost: x\r\n${other}\r\n${rest}`).said).toMatch(
      /^HTTP\/1\.1 400 /,
    );
  expect([asked(), upgrades]).toEqual([0, 0]);
});

test("connections beyond the limit are closed unanswered", async () => {
  const { port } = await startHardened(2);
  const held = [talk(port, "GET / HTTP/1.1\r\n"), talk(port, "GET / HTTP/1.1\r\n")];
  await Promise.all(held.map(({ socket }) => new Promise((done) => socket.once("ready", done))));
  expect(await talk(port, get).said).toBe("");
  for (const { socket } of held) socket.destroy();
});
