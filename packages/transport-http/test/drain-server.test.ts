import { once } from "node:events";
import { createServer, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createSecureServer } from "node:https";
import { connect, type AddressInfo, type Socket } from "node:net";
import { connect as connectSecurely, type TLSSocket } from "node:tls";
import { drainServer, hardenServer, toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";
import { createCertificate } from "../../../e2e/bed/certificate.ts";

interface Visit {
  readonly req: IncomingMessage;
  readonly res: ServerResponse;
}

/** A hardened server whose requests are answered by hand, in the order in which they come. */
async function start() {
  const visits: Visit[] = [];
  let arrived: (() => void) | undefined;
  const server = hardenServer(
    createServer((req, res) => {
      visits.push({ req, res });
      arrived?.();
    }),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => {
    server.closeAllConnections();
    server.close();
  });
  const { port } = server.address() as AddressInfo;
  async function visit(): Promise<Visit> {
    while (visits.length === 0) await new Promise<void>((resolve) => void (arrived = resolve));
    return visits.shift()!;
  }
  return { server, port, visit };
}

interface Talk {
  readonly socket: Socket;
  /** All that came, once the connection is gone; `isClean` unless it was reset. */
  readonly over: Promise<{ readonly said: string; readonly isClean: boolean }>;
  /** Resolves when this was said. */
  hears(text: string): Promise<void>;
}

async function talk(port: number, text = ""): Promise<Talk> {
  const socket = connect(port, "127.0.0.1");
  onTestFinished(() => void socket.destroy());
  let said = "";
  let isClean = true;
  socket.setEncoding("latin1").on("data", (chunk: string) => void (said += chunk));
  socket.on("error", () => void (isClean = false));
  const over = new Promise<void>((resolve) => void socket.on("close", () => resolve())).then(
    () => ({ said, isClean }),
  );
  await once(socket, "connect");
  if (text !== "") socket.write(text);
  return {
    socket,
    over,
    async hears(wanted) {
      while (!said.includes(wanted)) await once(socket, "data");
    },
  };
}

const get = "GET / HTTP/1.1\r\nHost: x\r\n\r\n";
const whole = { "content-length": 10 };
/** What the deadline would end is then not ended at all. */
const patient = { deadlineMs: Number.POSITIVE_INFINITY };

test("requests in progress finish, and no new request gets in", async () => {
  const { server, port, visit } = await start();
  const begun = await talk(port, get);
  const { res } = await visit();
  res.writeHead(200, whole).write("12345");
  await begun.hears("12345");
  const waiting = await talk(port, get);
  const late = await visit();

  const drained = drainServer(server, patient);
  await expect(talk(port)).rejects.toThrow("ECONNREFUSED");
  res.end("67890");
  expect((await begun.over).said).toMatch(/\r\n\r\n1234567890$/);
  late.res.writeHead(200, whole).end("1234567890");
  const { said } = await waiting.over;
  expect(said).toMatch(/^HTTP\/1\.1 200 [^]*\r\n1234567890$/);
  // so that no client sends another request behind it
  expect(said.toLowerCase()).toContain("\r\nconnection: close\r\n");
  expect(await drained).toEqual({ cut: 0 });
});

test("an answer that is ended and not sent yet arrives, which Node's own close would destroy", async () => {
  const { server, port, visit } = await start();
  const slow = connect(port, "127.0.0.1");
  onTestFinished(() => void slow.destroy());
  slow.write(get);
  const { res } = await visit();
  const size = 2 ** 24;
  res.writeHead(200, { "content-length": size }).end(Buffer.alloc(size));
  await once(slow, "readable");
  expect(res.writableFinished).toBe(false);

  const drained = drainServer(server, patient);
  let bytes = 0;
  for await (const chunk of slow) bytes += (chunk as Buffer).byteLength;
  expect(bytes).toBeGreaterThan(size);
  expect(await drained).toEqual({ cut: 0 });
});

test("a response that is unfinished at the deadline is destroyed, and never ends as if it were finished", async () => {
  const { server, port, visit } = await start();
  const sized = await talk(port, get);
  (await visit()).res.writeHead(200, whole).write("12345");
  const chunked = await talk(port, get);
  (await visit()).res.writeHead(200).write("12345");
  await Promise.all([sized.hears("12345"), chunked.hears("12345")]);

  expect(await drainServer(server, { deadlineMs: 20 })).toEqual({ cut: 2 });
  expect((await sized.over).said).toMatch(/\r\n\r\n12345$/);
  expect((await chunked.over).said).toMatch(/\r\n\r\n5\r\n12345\r\n$/);
});

test("the signal is the deadline, also when it was given before", async () => {
  for (const signal of [AbortSignal.abort(), AbortSignal.timeout(20)]) {
    const { server, port, visit } = await start();
    const client = await talk(port, get);
    (await visit()).res.writeHead(200, whole).write("12345");
    expect(await drainServer(server, { signal })).toEqual({ cut: 1 });
    await client.over;
  }
});

test("connections without a request are closed at once, whether they had one or never did", async () => {
  const { server, port, visit } = await start();
  const silent = await talk(port);
  const kept = await talk(port, get);
  (await visit()).res.end("done");
  await kept.hears("done");
  expect(await drainServer(server, patient)).toEqual({ cut: 0 });
  await Promise.all([silent.over, kept.over]);
});

test("a drain over TLS does the same", async () => {
  const server = hardenServer(
    createSecureServer(createCertificate(), (_, res) => void res.end("done")),
  );
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const begin = async (): Promise<TLSSocket> => {
    const socket = connectSecurely({ port, rejectUnauthorized: false });
    onTestFinished(() => void socket.destroy());
    await Promise.all([once(socket, "secureConnect"), once(server, "secureConnection")]);
    return socket;
  };
  const silent = await begin();
  const kept = await begin();
  kept.write(get);
  await once(kept, "data");
  const closed = [silent, kept].map((socket) => once(socket.resume(), "close"));
  expect(await drainServer(server, patient)).toEqual({ cut: 0 });
  await Promise.all(closed);
});

test("a call that still comes on a kept connection is answered, and then the connection ends", async () => {
  const { server, port, visit } = await start();
  const busy = await talk(port, get);
  const { res } = await visit();
  const drained = drainServer(server, patient);
  const json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
  busy.socket.write(`POST /mcp HTTP/1.1\r\nHost: x\r\n${json}\r\n{}`);
  const late = await visit();
  late.res.writeHead(200, whole).end("abcdefghij");
  res.writeHead(200, whole).end("1234567890");
  const { said } = await busy.over;
  expect(said).toMatch(/\r\n1234567890HTTP\/1\.1 200 [^]*\r\nabcdefghij$/);
  expect(said.toLowerCase()).toContain("\r\nconnection: close\r\n");
  expect(await drained).toEqual({ cut: 0 });
});

test("requests that wait behind an answer on their connection are answered, too, in the order in which they came", async () => {
  const { server, port, visit } = await start();
  const json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
  const post = `POST /mcp HTTP/1.1\r\nHost: x\r\n${json}\r\n{}`;
  const busy = await talk(port, post + post);
  const [first, second] = [await visit(), await visit()];
  const drained = drainServer(server, patient);
  busy.socket.write(post);
  const third = await visit();
  for (const [{ res }, text] of [
    [third, "3333333333"],
    [first, "1111111111"],
    [second, "2222222222"],
  ] as const)
    res.writeHead(200, whole).end(text);
  const { said } = await busy.over;
  expect(said).toMatch(/1111111111HTTP[^]*\r\n2222222222HTTP[^]*\r\n3333333333$/);
  expect(said.toLowerCase().split("\r\nconnection: close\r\n")).toHaveLength(2);
  expect(await drained).toEqual({ cut: 0 });
});

test("a connection that a handler wants to keep is closed behind its answer all the same", async () => {
  const { server, port, visit } = await start();
  server.keepAliveTimeout = 0; // for ever
  const busy = await talk(port, get);
  const { res } = await visit();
  const drained = drainServer(server, patient);
  const json = "Content-Type: application/json\r\nContent-Length: 2\r\n";
  busy.socket.write(`POST /mcp HTTP/1.1\r\nHost: x\r\n${json}\r\n{}`);
  const late = await visit();
  res.writeHead(200, { ...whole, connection: "keep-alive" }).end("1234567890");
  await once(late.req.resume(), "end");
  late.res.writeHead(200, { ...whole, connection: "keep-alive" }).end("abcdefghij");
  expect((await busy.over).said).toMatch(/\r\n1234567890HTTP\/1\.1 200 [^]*\r\nabcdefghij$/);
  expect(await drained).toEqual({ cut: 0 });
});

test("a transfer that still comes is refused unread, with a hint to go elsewhere", async () => {
  const { server, port, visit } = await start();
  const busy = await talk(port, get);
  const { res } = await visit();
  const drained = drainServer(server, patient);
  const body = "x".repeat(1_000);
  busy.socket.write(
    `PUT /mcp/uploads/x HTTP/1.1\r\nHost: x\r\nContent-Length: 1000\r\n\r\n${body}`,
  );
  // queued behind the answer that is still to come
  await once(server, "request");
  res.writeHead(200, whole).end("1234567890");
  const { said } = await busy.over;
  expect(said).toMatch(/\r\n1234567890HTTP\/1\.1 503 /);
  const refusal = said.slice(said.indexOf("HTTP/1.1 503"));
  expect(refusal).toMatch(/\r\nRetry-After: 1\r\n/);
  expect(refusal).toMatch(/\r\nConnection: close\r\n/);
  expect(refusal).toContain('"reason":"draining"');
  expect(await drained).toEqual({ cut: 0 });
});

test("streams that would never end are ended cleanly and at once; that of a tool call is not", async () => {
  const streams = new Map<string, ReadableStreamDefaultController<Uint8Array>>();
  const cancelled: string[] = [];
  const handle = toNodeHandler({
    async fetch(request) {
      const { pathname } = new URL(request.url);
      const body = new ReadableStream<Uint8Array>({
        start(controller) {
          streams.set(pathname, controller);
          controller.enqueue(Buffer.from("data: first\n\n"));
        },
        cancel: () => void cancelled.push(pathname),
      });
      return new Response(body, { headers: { "content-type": "text/event-stream" } });
    },
  });
  const { server, port, visit } = await start();
  const ask = async (head: string): Promise<Talk> => {
    const client = await talk(port, `${head}Host: x\r\nContent-Length: 0\r\n\r\n`);
    const { req, res } = await visit();
    handle(req, res);
    await client.hears("first");
    return client;
  };
  const listening = "Mcp-Method: subscriptions/listen\r\n";
  const opened = await ask("GET /opened HTTP/1.1\r\n");
  const subscribed = await ask(`POST /subscribed HTTP/1.1\r\n${listening}`);
  const called = await ask("POST /called HTTP/1.1\r\nMcp-Method: tools/call\r\n");
  // one that comes while the server begins to drain, and has no answer yet
  const during = await talk(port, `POST /during HTTP/1.1\r\nHost: x\r\n${listening}\r\n`);
  const late = await visit();

  const drained = drainServer(server, patient);
  handle(late.req, late.res);
  for (const client of [opened, subscribed, during]) {
    const { said, isClean } = await client.over;
    // the chunk that says the end
    expect([isClean, said]).toEqual([true, expect.stringMatching(/data: first[^]*\r\n0\r\n\r\n$/)]);
  }
  expect(cancelled.toSorted()).toEqual(["/during", "/opened", "/subscribed"]);
  const call = streams.get("/called")!;
  call.enqueue(Buffer.from("data: last\n\n"));
  call.close();
  expect((await called.over).said).toMatch(/data: last[^]*\r\n0\r\n\r\n$/);
  expect(await drained).toEqual({ cut: 0 });
});

test("a connection that was upgraded is left to its handler", async () => {
  const { server, port, visit } = await start();
  server.on("upgrade", (_req, socket) => {
    socket.on("error", () => {}).write("HTTP/1.1 101 Switching Protocols\r\n\r\n");
    socket.on("data", (chunk) => socket.end(chunk));
  });
  // a proxy may upgrade a connection that it kept
  const client = await talk(port, get);
  (await visit()).res.writeHead(200, whole).end("1234567890");
  await client.hears("1234567890");
  client.socket.write("GET / HTTP/1.1\r\nHost: x\r\nConnection: upgrade\r\nUpgrade: y\r\n\r\n");
  await client.hears("101 Switching Protocols");

  const drained = drainServer(server, patient);
  client.socket.write("still there");
  await client.hears("still there");
  expect(await drained).toEqual({ cut: 0 });
});

test("refuses to drain a server whose responses are not counted", async () => {
  await expect(drainServer(createServer())).rejects.toThrow(TypeError);
});
