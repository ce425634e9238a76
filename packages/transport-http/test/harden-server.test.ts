import { once } from "node:events";
import { Agent, createServer, get, type IncomingMessage } from "node:http";
import { connect, type Socket } from "node:net";
import { hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test, vi } from "vitest";
import { boundHandshakes } from "../src/node/harden-server.ts";
import { listen } from "./serve.ts";

const asking = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";

async function startHardened(perProcess?: number) {
  let asked = 0;
  const server = createServer((req, res) => {
    asked++;
    if (req.url !== "/held") res.end(String(Object.keys(req.headers).length));
  });
  const origin = await listen(
    hardenServer(server, perProcess === undefined ? {} : { connections: { perProcess } }),
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

/** Waits for the server to end a connection. */
const over = (socket: Socket): Promise<void> =>
  new Promise((resolve) => void socket.once("end", resolve).once("close", resolve));

test("a hardened server waits for no client for ever", async () => {
  const { server } = await startHardened();
  const { headersTimeout, requestTimeout, keepAliveTimeout } = server;
  expect([headersTimeout, requestTimeout, keepAliveTimeout]).toEqual([15_000, 0, 5_000]);
});

test("keeps idle connections for as long as the balancer in front needs them, and never for ever", async () => {
  const server = hardenServer(createServer(), { keepAliveTimeoutMs: 75_000 });
  expect(server.keepAliveTimeout).toBe(75_000);
  for (const keepAliveTimeoutMs of [0, -1, NaN, Infinity, 3_600_001])
    expect(() => hardenServer(createServer(), { keepAliveTimeoutMs })).toThrow(RangeError);
});

test.each([
  ["reads nothing gets no 100 Continue", false],
  ["reads the body gets it, whatever the path", true],
])("a client that waits for it, at a listener that %s", async (_what, reads) => {
  const server = createServer((req, res) => {
    if (reads) req.on("data", () => {}).on("end", () => res.end("read"));
    else res.writeHead(413, { connection: "close" }).end();
  });
  const { port } = new URL(await listen(hardenServer(server)));
  for (const path of ["/", "/mcp/u/x", "/mcp/uploads/x"]) {
    const head = `PUT ${path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 3\r\n`;
    const { socket, said } = talk(Number(port), `${head}Expect: 100-continue\r\n\r\n`);
    socket.on("data", (text) => void (String(text).includes(" 100 ") && socket.write("abc")));
    expect(await said).toMatch(
      reads ? /^HTTP\/1\.1 100 Continue\r\n\r\nHTTP\/1\.1 200 / : /^HTTP\/1\.1 413 /,
    );
  }
});

test("a pipeline of requests ends after the hundredth", async () => {
  const { server, port, asked } = await startHardened();
  server.keepAliveTimeout = 100; // the end that comes anyway needs no wait
  const said = await talk(port, asking.repeat(150)).said;
  expect(said.match(/HTTP\/1\.1 200/g)).toHaveLength(100);
  expect(asked()).toBe(100);
});

test(
  "the hundredth answer of a connection says that it is the last, also where a handler says keep-alive",
  { tags: "slow" },
  async () => {
    const event = () => new Response("data: {}\n\n", { headers: { ...events, ...keepAlive } });
    const json = () => Response.json({}, { headers: keepAlive });
    for (const answer of [event, json]) {
      const handler = toNodeHandler({ fetch: async () => answer() });
      const origin = await listen(hardenServer(createServer(handler)));
      const agent = new Agent({ keepAlive: true, maxSockets: 1 });
      onTestFinished(() => agent.destroy());
      const said: unknown[] = [];
      for (let asked = 0; asked < 201; asked++) {
        const request = get(origin, { agent });
        const [response] = (await once(request, "response")) as [IncomingMessage];
        await response.resume().toArray();
        said.push(`${response.statusCode} ${response.headers.connection}`);
      }
      const last = new Set([99, 199]);
      expect(said).toEqual(said.map((_, at) => (last.has(at) ? "200 close" : "200 keep-alive")));
    }
  },
);

const events = { "content-type": "text/event-stream" };
const keepAlive = { connection: "keep-alive" };

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

test.each([
  ["a request", "\r\n"],
  ["an upgrade", "Connection: Upgrade\r\nUpgrade: websocket\r\n\r\n"],
])(
  "a refusal ends the connection of a peer that never closes its side: %s",
  async (_name, rest) => {
    const { server, port } = await startHardened();
    server.on("upgrade", (_request, socket) => void socket.destroy());
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {}).resume();
    const ended = once(socket, "end");
    socket.write(`GET / HTTP/1.1\r\nHost: x\r\nHost: x\r\n${rest}`);
    await ended;
    const connections = (): Promise<number> =>
      new Promise((resolve) => server.getConnections((_error, count) => resolve(count)));
    await expect.poll(connections).toBe(0);
  },
);

test("connections beyond the limit are closed unanswered", async () => {
  const { server, port } = await startHardened(2);
  const held: Socket[] = [];
  for (let opened = 0; opened < 2; opened += 1) {
    const isAsking = once(server, "request");
    held.push(talk(port, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n").socket);
    await isAsking;
  }
  expect(await talk(port, asking).said).toBe("");
  for (const socket of held) socket.destroy();
});

const bodiless = "POST /held HTTP/1.1\r\nHost: x\r\nContent-Length: 9\r\n\r\n";

test.each(["", "GET / HTTP/1.1\r\nHost: x\r\n", bodiless, `${bodiless}12`])(
  "connections that send %j and no request keep no other client out",
  async (beginning) => {
    const { server, port } = await startHardened(20);
    server.keepAliveTimeout = 100; // the end that comes anyway needs no wait
    const isOpen = once(server, "request");
    const working = talk(port, "GET /held HTTP/1.1\r\nHost: x\r\n\r\n");
    await isOpen;
    const silent: Socket[] = [];
    for (let opened = 0; opened < 100; opened += 1) {
      const socket = talk(port, beginning).socket.resume();
      silent.push(socket);
      await once(socket, "ready");
    }
    expect(await talk(port, asking).said).toMatch(/^HTTP\/1.1 200/);
    // a request that is worked on is nobody's room
    expect(working.socket.closed).toBe(false);
    for (const socket of [...silent, working.socket]) socket.destroy();
  },
);

test("a body that comes keeps its place, and one that does not is answered with 408", async () => {
  vi.useFakeTimers({ toFake: ["setTimeout", "clearTimeout"] });
  onTestFinished(() => void vi.useRealTimers());
  const { server, port } = await startHardened();
  const begun = once(server, "request");
  const { said } = talk(port, bodiless);
  const [request] = (await begun) as [IncomingMessage];
  vi.advanceTimersByTime(29_000);
  expect(request.socket.destroyed).toBe(false);
  vi.advanceTimersByTime(1_001);
  expect(await said).toMatch(/^HTTP\/1.1 408 Request Timeout\r\nConnection: close\r\n/);
  const next = once(server, "request");
  const whole = talk(port, `${bodiless}123456789`);
  const [{ socket }] = (await next) as [IncomingMessage];
  vi.advanceTimersByTime(10);
  await vi.waitFor(() => expect(socket.bytesRead).toBeGreaterThan(bodiless.length));
  vi.advanceTimersByTime(60_000);
  expect(socket.destroyed).toBe(false);
  whole.socket.destroy();
});

test("a connection that says nothing, or half of something, is closed, and so is one that is half closed", async () => {
  const server = hardenServer(createServer((_req, res) => void res.end()));
  expect(server).toMatchObject({ connectionsCheckingInterval: 5_000 });
  server.headersTimeout = 200;
  Object.assign(server, { connectionsCheckingInterval: 50 });
  const port = Number(new URL(await listen(server)).port);
  const open = (text: string): Socket => {
    const socket = connect({ port, host: "127.0.0.1", allowHalfOpen: true });
    onTestFinished(() => void socket.destroy());
    socket.on("error", () => {}).resume();
    if (text !== "") socket.write(text);
    return socket;
  };
  const ends = [open(""), open("GET / HTTP/1.1\r\nHo"), open("").end(), open("GET").end()];
  await Promise.all(ends.map(over));
});

test("connections of one address beyond its share are closed unanswered, those of another are served", async () => {
  const origin = await listen(
    hardenServer(
      createServer((_req, res) => void res.end("served")),
      { connections: { perAddress: 3 } },
    ),
  );
  const port = Number(new URL(origin).port);
  const open = (localAddress: string): Socket => {
    const socket = connect({ port, host: "127.0.0.1", localAddress });
    onTestFinished(() => void socket.destroy());
    return socket.on("error", () => {});
  };
  const answerTo = async (socket: Socket): Promise<string> => {
    socket.write(asking.replace("\r\n\r\n", "\r\nConnection: close\r\n\r\n"));
    let answer = "";
    socket.setEncoding("latin1").on("data", (chunk: string) => void (answer += chunk));
    await over(socket);
    return answer;
  };
  const held = Array.from({ length: 3 }, () => open("127.0.0.1"));
  await Promise.all(held.map((socket) => once(socket, "connect")));
  expect(await answerTo(open("127.0.0.1"))).toBe("");
  expect(await answerTo(open("127.0.0.2"))).toContain("served");
  expect(await answerTo(held[0]!)).toContain("served");
  expect(await answerTo(open("127.0.0.1"))).toContain("served");
});

test("a TLS handshake that does not end is given up, one that does is not", async () => {
  const server = createServer((_req, res) => void res.end());
  const connected: Socket[] = [];
  boundHandshakes(server, 100);
  server.on("connection", (socket: Socket) => {
    connected.push(socket);
    // the second one is done at once
    if (connected.length === 2) server.emit("secureConnection", socket);
  });
  const port = Number(new URL(await listen(server)).port);
  const [late, done] = [connect(port, "127.0.0.1"), connect(port, "127.0.0.1")];
  onTestFinished(() => void done.destroy());
  await over(late.resume());
  await new Promise((resolve) => setTimeout(resolve, 150));
  expect(connected.map(({ destroyed }) => destroyed)).toEqual([true, false]);
});
