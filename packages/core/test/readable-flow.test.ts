import { once } from "node:events";
import { createServer, get, type IncomingMessage } from "node:http";
import type { AddressInfo } from "node:net";
import { createInletAgents, flowOfReadable } from "../src/node.ts";
import { expect, onTestFinished, test } from "vitest";

const size = 4 * 2 ** 20;

/** The flow of an answer that is read past the parser. */
async function startFlow() {
  const server = createServer((_req, res) => {
    res.writeHead(200, { "content-length": size });
    res.end(Buffer.alloc(size, 7));
  });
  server.listen(0, "127.0.0.1");
  await once(server, "listening");
  onTestFinished(() => void server.close());
  const { port } = server.address() as AddressInfo;
  const { http: agent } = createInletAgents({ keepAlive: true });
  const answer = await new Promise<IncomingMessage>((resolve) =>
    get({ port, host: "127.0.0.1", agent }, resolve),
  );
  return { answer, flow: flowOfReadable(answer, { operation: "test", divertBytes: 2 ** 20 }) };
}

test.each([true, false])(
  "a lent flow is over when its last chunk is written (well: %s)",
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
        // the connection is closed by then, which is no fault
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
