import { execFile, spawnSync } from "node:child_process";
import { once } from "node:events";
import {
  createServer,
  type IncomingMessage,
  type RequestListener,
  type Server,
  type ServerResponse,
} from "node:http";
import { createServer as createTlsServer } from "node:https";
import { connect, type AddressInfo } from "node:net";
import { connect as connectTls } from "node:tls";
import { text } from "node:stream/consumers";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { createWebSocketHandler } from "@sluice/transport-ws";
import { hardenServer } from "@sluice/transport-http/node";
import { McpServer } from "@modelcontextprotocol/server";
import { describe, expect, onTestFinished, test, vi } from "vitest";
import { createCertificate } from "../../../e2e/bed/certificate.ts";
import { rawSocket } from "./raw-socket.ts";

const run = promisify(execFile);
const hasCurl = spawnSync("curl", ["--version"]).stdout?.includes("HTTP2") ?? false;
const java = spawnSync("java", ["--list-modules"]).stdout?.toString() ?? "";
const hasJava = /^java\.net\.http@/m.test(java) && /^jdk\.compiler@/m.test(java);
if (!hasCurl)
  console.log("no curl with HTTP/2: its offer of h2c is not tried (apt-get install curl)");
if (!hasJava)
  console.log("no JDK: the offer of its HTTP client is not tried (apt-get install default-jdk)");

/** Says what came, as an ordinary server does. */
const tell: RequestListener = (request, response) => {
  void text(request).then((body) => tellOf(request, response, body));
};

function tellOf(request: IncomingMessage, response: ServerResponse, body: string): void {
  const { method, url, headers } = request;
  const { upgrade, connection, "http2-settings": settings } = headers;

  response.end(JSON.stringify([method, url, body.length, upgrade ?? settings ?? connection ?? ""]));
}

/** A server with a WebSocket at /mcp, and what it answers otherwise. */
async function serve(listener: RequestListener = tell, make: () => Server = createServer) {
  const server = make();
  server.on("request", listener);
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  const { port } = server.address() as AddressInfo;
  const factory = (): McpServer => new McpServer({ name: "test", version: "1" });
  const url = `ws://127.0.0.1:${port}/mcp`;
  const sockets = createWebSocketHandler(factory, { url, anonymous: true });
  server.on("upgrade", (request, socket, head) => {
    if (!sockets.upgrade(request, socket, head)) socket.destroy();
  });
  onTestFinished(async () => {
    await sockets.close({ deadlineMs: 0 });
    server.closeAllConnections();
    server.close();
  });
  return { server, port, sockets };
}

const offer = [
  "Host: 127.0.0.1",
  "Connection: Upgrade, HTTP2-Settings",
  "Upgrade: h2c",
  "HTTP2-Settings: AAEAAEAAAAIAAAABAAMAAABkAAQBAAAAAAUAAEAA",
].join("\r\n");

/** Sends bytes in pieces over one connection, and gives the response until it ends. */
async function exchange(port: number, pieces: readonly string[]): Promise<string> {
  const socket = connect(port, "127.0.0.1");
  const answer = text(socket);
  await once(socket, "connect");
  for (const piece of pieces) {
    socket.write(piece);
    await new Promise(setImmediate);
  }
  return answer;
}

const bodies = (answer: string): unknown[] =>
  Array.from(answer.matchAll(/^\[".*\]/gm), ([line]) => JSON.parse(line) as unknown);
const last = "Connection: close\r\n";

describe("a request that offers another protocol than WebSocket is an ordinary one", () => {
  test("with a body of known length, in pieces, chunked, or without one, at any path", async () => {
    const { port } = await serve();
    const large = "x".repeat(100_000);
    const send = (...pieces: string[]) => exchange(port, pieces);
    const answers = await Promise.all([
      send(`GET /a?b=c HTTP/1.1\r\n${offer}\r\n${last}\r\n`),
      send(`POST /mcp HTTP/1.1\r\n${offer}\r\n${last}Content-Length: 5\r\n\r\nhello`),
      send(`POST /mcp HTTP/1.1\r\n${offer}\r\n${last}Content-Length: 100000\r\n\r\n`, large),
      send(
        `POST / HTTP/1.1\r\n${offer}\r\n${last}Transfer-Encoding: chunked\r\n\r\n`,
        "3\r\nabc\r\n",
        "0\r\n\r\n",
      ),
      send(`GET /tls HTTP/1.1\r\n${offer.replace("h2c", "TLS/1.2, HTTP/2.0")}\r\n${last}\r\n`),
      send(`GET /both HTTP/1.1\r\n${offer.replace("h2c", "h2c, websocket")}\r\n${last}\r\n`),
    ]);
    expect(answers.map((answer) => [answer.slice(0, 15), ...bodies(answer)])).toEqual([
      ["HTTP/1.1 200 OK", ["GET", "/a?b=c", 0, "close"]],
      ["HTTP/1.1 200 OK", ["POST", "/mcp", 5, "close"]],
      ["HTTP/1.1 200 OK", ["POST", "/mcp", 100_000, "close"]],
      ["HTTP/1.1 200 OK", ["POST", "/", 3, "close"]],
      ["HTTP/1.1 200 OK", ["GET", "/tls", 0, "close"]],
      ["HTTP/1.1 200 OK", ["GET", "/both", 0, "close"]],
    ]);
  });

  test("one connection carries any number of them, and leaves no listeners behind", async () => {
    const { port } = await serve();
    const warned = vi.fn<(warning: Error) => void>();
    process.on("warning", warned);
    onTestFinished(() => void process.off("warning", warned));
    const socket = connect(port, "127.0.0.1");
    let came = "";
    socket.on("data", (chunk: Buffer) => (came += chunk.toString()));
    for (let n = 1; n <= 50; n++) {
      socket.write(`POST /${n} HTTP/1.1\r\n${offer}\r\nContent-Length: 2\r\n\r\nab`);
      await vi.waitFor(() => expect(bodies(came)).toHaveLength(n), { interval: 1 });
    }
    socket.destroy();
    expect(bodies(came).at(-1)).toEqual(["POST", "/50", 2, ""]);
    expect(warned).not.toHaveBeenCalled();
  });

  test("it is answered in its turn, after what the client sent before on the connection", async () => {
    const waiting: (() => void)[] = [];
    const { port } = await serve((request, response) => {
      if (request.url === "/slow") waiting.push(() => tell(request, response));
      else tell(request, response);
    });
    const answer = exchange(port, [
      `GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /next HTTP/1.1\r\nHost: a\r\n\r\n` +
        `GET /offer HTTP/1.1\r\n${offer}\r\n\r\nGET /last HTTP/1.1\r\nHost: a\r\n${last}\r\n`,
    ]);
    await vi.waitFor(() => expect(waiting).toHaveLength(1));
    waiting[0]!();
    expect(bodies(await answer)).toEqual([
      ["GET", "/slow", 0, ""],
      ["GET", "/next", 0, ""],
      ["GET", "/offer", 0, ""],
      ["GET", "/last", 0, "close"],
    ]);
  });

  test("it waits behind a large answer, which continues as its client reads", async () => {
    const [piece, pieces] = [Buffer.alloc(65_536, "x"), 400];
    let written = 0;
    let started: ServerResponse | undefined;
    const { port } = await serve((request, response) => {
      if (request.url !== "/large") return tell(request, response);
      started = response;
      const write = (): void => {
        while (written < pieces) {
          written += 1;
          if (!response.write(piece)) return void response.once("drain", write);
        }
        response.end();
      };
      write();
    });
    const socket = connect(port, "127.0.0.1");
    socket.pause();
    socket.write(
      `GET /large HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\n${offer}\r\n${last}\r\n`,
    );
    await vi.waitFor(() => expect(started?.writableNeedDrain).toBe(true));
    const answer = await text(socket);
    expect(answer.length).toBeGreaterThan(piece.length * pieces);
    expect(bodies(answer)).toEqual([["GET", "/x", 0, "close"]]);
  });

  test("a client that resets the connection while it waits ends nothing but the connection", async () => {
    const { server, port, sockets } = await serve((request) => void request.resume());
    const upgrades = ["h2c", "websocket"].map((protocol) => offer.replace("h2c", protocol));
    for (const upgrade of upgrades) {
      const came = once(server, "upgrade");
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      socket.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\nGET /mcp HTTP/1.1\r\n${upgrade}\r\n\r\n`);
      const [request] = (await came) as [IncomingMessage];
      const closed = new Promise((resolve) => request.socket.once("close", resolve));
      expect(request.socket.listenerCount("error")).toBeGreaterThan(0);
      socket.resetAndDestroy();
      await closed;
    }
    expect(sockets.connections).toBe(0);
  });

  test("the idle time that began with the answer before does not run while it is answered", async () => {
    const idle: (number | undefined)[] = [];
    const { port } = await serve((request, response) => {
      idle.push(request.socket.timeout);
      setImmediate(() => tell(request, response));
    });
    const answer = await exchange(port, [
      `GET /first HTTP/1.1\r\nHost: a\r\n\r\nGET /x HTTP/1.1\r\n${offer}\r\n${last}\r\n`,
    ]);
    expect(bodies(answer)).toHaveLength(2);
    expect(idle[1]).toBe(0);
  });

  test("a WebSocket behind a request that is not answered yet opens after the answer", async () => {
    let finish: (() => void) | undefined;
    const { port, sockets } = await serve((request, response) => {
      finish = () => tell(request, response);
    });
    const socket = connect(port, "127.0.0.1");
    let came = "";
    socket.on("data", (chunk: Buffer) => (came += chunk.toString("latin1")));
    const asked = [
      "GET /mcp HTTP/1.1",
      `Host: 127.0.0.1:${port}`,
      "Connection: Upgrade",
      "Upgrade: websocket",
      "Sec-WebSocket-Version: 13",
      "Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==",
      "Sec-WebSocket-Protocol: mcp",
    ];
    socket.write(`GET /slow HTTP/1.1\r\nHost: a\r\n\r\n${asked.join("\r\n")}\r\n\r\n`);
    await vi.waitFor(() => expect(finish).toBeDefined());
    await new Promise((resolve) => setTimeout(resolve, 50));
    expect(came).toBe("");
    finish!();
    await vi.waitFor(() => expect(sockets.connections).toBe(1));
    await vi.waitFor(() =>
      expect(came.match(/HTTP\/1\.1 \d+/g)).toEqual(["HTTP/1.1 200", "HTTP/1.1 101"]),
    );
    socket.destroy();
  });

  test("it is answered over TLS as well", async () => {
    const { port } = await serve(tell, () => createTlsServer(createCertificate()));
    const socket = connectTls({ port, host: "127.0.0.1", rejectUnauthorized: false });
    socket.write(`POST /tls HTTP/1.1\r\n${offer}\r\n${last}Content-Length: 2\r\n\r\nab`);
    expect(bodies(await text(socket))).toEqual([["POST", "/tls", 2, "close"]]);
  });

  test("two handlers of one server answer it once, and both serve WebSockets", async () => {
    const { server, port } = await serve();
    const other = createWebSocketHandler(() => new McpServer({ name: "b", version: "1" }), {
      url: `ws://127.0.0.1:${port}/other`,
      anonymous: true,
    });
    server.on("upgrade", (request, socket, head) => void other.upgrade(request, socket, head));
    const answer = await exchange(port, [`GET /x HTTP/1.1\r\n${offer}\r\n${last}\r\n`]);
    expect(bodies(answer)).toEqual([["GET", "/x", 0, "close"]]);
    expect((await rawSocket(port)).status).toBe(101);
  });

  test("a connection counts once in the limit of its address", async () => {
    const { server, port } = await serve();
    hardenServer(server, { connections: { perAddress: 2 } });
    const request = `GET /x HTTP/1.1\r\n${offer}\r\n\r\n`;
    const end = `GET /end HTTP/1.1\r\n${offer}\r\n${last}\r\n`;
    for (let n = 0; n < 3; n++)
      expect(bodies(await exchange(port, [request, request, end]))).toHaveLength(3);
  });

  test(
    "a hundred requests are the most of a connection of a hardened server, however they come",
    { tags: "slow" },
    async () => {
      const { server, port } = await serve();
      hardenServer(server);
      const socket = connect(port, "127.0.0.1").on("error", () => {});
      const ended = once(socket, "close");
      let came = "";
      socket.on("data", (chunk: Buffer) => (came += chunk.toString()));
      for (let n = 1; n <= 110 && !socket.destroyed; n++) {
        const plain = `GET /${n} HTTP/1.1\r\nHost: a\r\n\r\n`;
        socket.write(n % 2 ? plain : `GET /${n} HTTP/1.1\r\n${offer}\r\n\r\n`);
        await vi.waitFor(() => expect(socket.destroyed || bodies(came).length === n).toBe(true), {
          interval: 1,
        });
      }
      await ended;
      expect(bodies(came)).toHaveLength(100);
    },
  );

  test("it is 431 if Node may have dropped fields, and nothing behind it is read as a request", async () => {
    const { server, port } = await serve();
    server.maxHeadersCount = 20;
    const many = Array.from({ length: 30 }, (_, n) => `x-${n}: y`).join("\r\n");
    const inner = "GET /smuggled HTTP/1.1\r\nHost: a\r\n\r\n";
    const answer = await exchange(port, [
      `POST /x HTTP/1.1\r\n${offer}\r\n${many}\r\nContent-Length: ${inner.length}\r\n\r\n${inner}`,
    ]);
    expect(answer).toMatch(/^HTTP\/1\.1 431 /);
    expect(answer).not.toContain("smuggled");
  });

  test.skipIf(!hasCurl)("curl --http2 gets its answer over HTTP/1.1", async () => {
    const { port } = await serve();
    const url = `http://127.0.0.1:${port}/x`;
    const { stdout } = await run("curl", [
      "-s",
      "--http2",
      "-w",
      " %{http_version}",
      "-d",
      "ab",
      url,
    ]);
    expect(stdout).toBe('["POST","/x",2,""] 1.1');
  });

  test.skipIf(!hasJava)(
    "Java's client, as it is, gets its answers",
    { tags: "slow", timeout: 60_000 },
    async () => {
      const { port } = await serve();
      const program = fileURLToPath(new URL("programs/HttpClientPeer.java", import.meta.url));
      // for a process of a second, one compiler and one collector take half the time
      const flags = ["-XX:TieredStopAtLevel=1", "-XX:+UseSerialGC"];
      const { stdout } = await run("java", [...flags, program, `http://127.0.0.1:${port}/x`]);
      expect(stdout.trim().split("\n")).toEqual([
        'HTTP_1_1 200 ["GET","/x",0,""]',
        'HTTP_1_1 200 ["POST","/x",5,""]',
        'HTTP_1_1 200 ["POST","/x",200000,""]',
      ]);
    },
  );
});
