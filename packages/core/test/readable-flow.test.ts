import { randomBytes } from "node:crypto";
import { once } from "node:events";
import { createServer, get, type IncomingMessage, type ServerResponse } from "node:http";
import { createServer as createTcpServer, type AddressInfo, type Server } from "node:net";
import { createInletAgents, flowOfReadable } from "../src/node.ts";
import { expect, onTestFinished, test } from "vitest";

const size = 4 * 2 ** 20;

/** An answer over a connection whose bodies can be lent. */
async function ask(server: Server): Promise<IncomingMessage> {
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { http: agent } = createInletAgents({ keepAlive: true });
  return await new Promise((resolve) => get({ port, host: "127.0.0.1", agent }, resolve));
}

/** The flow of an answer that is read past the parser. */
async function startFlow() {
  const server = createServer((_req, res) => {
    res.writeHead(200, { "content-length": size });
    res.end(Buffer.alloc(size, 7));
  });
  const answer = await ask(server);
  return { answer, flow: flowOfReadable(answer, { operation: "test", divertBytes: 2 ** 20 }) };
}

test("a lent flow ends where its length says, whatever follows on the connection", async () => {
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      socket.write(Buffer.alloc(size + 100_000, 7));
    });
  });
  const answer = await ask(server);
  let received = 0;
  let lent = 0;
  await flowOfReadable(answer, { operation: "test", divertBytes: 2 ** 20 }).pump(
    (chunk, release) => {
      received += chunk.length;
      if (release) lent += chunk.length;
      release?.();
    },
    { blocks: 2, blockBytes: 256 * 1024 },
  );
  expect(received).toBe(size);
  expect(lent).toBeGreaterThan(0);
  expect(answer.destroyed).toBe(true);
});

test("bytes in the parser come before the rest is read past it", async () => {
  const content = randomBytes(size);
  let goOn = (): void => {};
  let finish = (): void => {};
  const server = createTcpServer((socket) => {
    socket.on("error", () => {});
    socket.once("data", () => {
      socket.write(`HTTP/1.1 200 OK\r\nContent-Length: ${size}\r\n\r\n`);
      socket.write(content.subarray(0, 1_000));
    });
    goOn = () => socket.write(content.subarray(1_000, 2_000));
    onTestFinished(() => void socket.destroy());
    finish = () => socket.end(content.subarray(2_000));
  });
  const answer = await ask(server);
  await expect.poll(() => answer.readableLength).toBe(1_000);
  goOn();
  await expect.poll(() => answer.readableLength).toBe(2_000);
  finish();
  const parts: Buffer[] = [];
  await flowOfReadable(answer, { operation: "test", divertBytes: 2 ** 20 }).pump(
    (chunk, release) => {
      parts.push(Buffer.from(chunk));
      release?.();
    },
    { blocks: 2, blockBytes: 256 * 1024 },
  );
  expect(Buffer.concat(parts).equals(content)).toBe(true);
});

test.each([true, false])(
  "a lent flow ends when its last chunk is written (well: %s)",
  async (isWell) => {
    const { answer, flow } = await startFlow();
    const fault = new Error("no room");
    let received = 0;
    let isWritten = false;
    const pumping = flow.pump(
      async (chunk, release) => {
        received += chunk.length;
        release?.();
        if (received < size) return;
        // the connection is closed by then, which is not a fault
        if (!answer.closed) await once(answer, "close").catch(() => {});
        await new Promise((resolve) => setImmediate(resolve));
        if (!isWell) throw fault;
        isWritten = true;
      },
      { blocks: 2, blockBytes: 256 * 1024 },
    );
    const outcome: unknown = await pumping.then(
      () => "over",
      (error: unknown) => error,
    );
    expect([outcome, received, isWritten]).toEqual([isWell ? "over" : fault, size, isWell]);
  },
);

test.each([
  [
    "with its length",
    (body: Buffer, res: ServerResponse) => res.setHeader("content-length", body.length),
  ],
  ["without a length", () => {}],
])("a flow waits for its last write, and fails with it: a body %s", async (_what, prepare) => {
  for (const fails of [false, true]) {
    const server = createServer((_req, res) => {
      const body = Buffer.alloc(1_000, 7);
      prepare(body, res);
      res.end(body);
    });
    const flow = flowOfReadable(await ask(server), { operation: "test" });
    let isWritten = false;
    const pumping = flow.pump(async () => {
      await new Promise((resolve) => setTimeout(resolve, 20));
      if (fails) throw new Error("no room");
      isWritten = true;
    });
    const outcome = await pumping.then(() => "whole", String);
    expect(outcome).toBe(fails ? "Error: no room" : "whole");
    expect(isWritten).toBe(!fails);
  }
});
