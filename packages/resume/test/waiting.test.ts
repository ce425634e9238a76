// @module-tag slow
import { createServer, request, type Server } from "node:http";
import type { AddressInfo } from "node:net";
import { setFlagsFromString } from "node:v8";
import { runInNewContext } from "node:vm";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, test } from "vitest";
import { createResuming, endpoint, type Session } from "./resuming.ts";

const isDeep = process.env["SLUICE_DEEP"] !== undefined;
const waiting = isDeep ? 1_000 : 60;

setFlagsFromString("--expose-gc");
const collect = runInNewContext("gc") as () => void;

/** Bytes in use once everything is collected that can be; a few requests have a margin for what a second run finds. */
async function usedBytes(): Promise<number> {
  for (let n = 0; n < (isDeep ? 3 : 1); n++) {
    collect();
    await new Promise((resolve) => setImmediate(resolve));
  }
  return process.memoryUsage().heapUsed + process.memoryUsage().external;
}

async function connections(server: Server): Promise<number> {
  return new Promise((resolve, reject) =>
    server.getConnections((error, count) => (error ? reject(error) : resolve(count))),
  );
}

/** Calls the tool over its own connection; resolves when the answer ends. */
function call(port: number, session: Session, id: number, name: string): Promise<string> {
  const body = JSON.stringify({ jsonrpc: "2.0", id, method: "tools/call", params: { name } });
  return new Promise((resolve, reject) => {
    const headers = {
      ...session,
      accept: "application/json, text/event-stream",
      "content-type": "application/json",
      host: new URL(endpoint).host,
    };
    const asked = request({ port, method: "POST", path: "/mcp", headers, agent: false }, (res) => {
      let text = "";
      res.setEncoding("utf8").on("data", (part: string) => (text += part));
      res.on("end", () => resolve(text)).on("error", reject);
    });
    asked.on("error", reject).end(body);
  });
}

async function listen(handler: Parameters<typeof toNodeHandler>[0]): Promise<Server> {
  const server = createServer(toNodeHandler(handler));
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return server;
}

/**
 * 22 KiB for a question and 17 KiB for a tool that works, on Node 20; of these the SDK, with the request that it
 * shows to handlers and the stream that it answers in, takes 15 and 12. Other work in this process adds some MiB, so
 * a few requests are measured with a wide margin.
 */
const mostBytes = (isDeep ? 28 : 64) * 1024;

if (!isDeep)
  console.info("requests that wait for the client only: both kinds run with SLUICE_DEEP");

test.each([
  ["for the client", "ask"],
  ...(isDeep ? [["for its result", "work"] satisfies [string, string]] : []),
])(
  `${waiting} requests that wait %s hold no connection and little memory each`,
  async (awaited, name) => {
    const resuming = createResuming({ resume: { holdMs: 0 } });
    const server = await listen(resuming.handler);
    const { port } = server.address() as AddressInfo;
    const session = await resuming.open();
    const batch = async (from: number, count: number) => {
      for (let at = from; at < from + count; at += 20)
        await Promise.all(Array.from({ length: 20 }, (__, n) => call(port, session, at + n, name)));
    };
    // objects made once, and code compiled on the way, do not count for a request
    await batch(1, 40);
    const before = await usedBytes();
    await batch(1_001, waiting);
    await expect.poll(() => connections(server)).toBe(0);
    const each = ((await usedBytes()) - before) / waiting;
    process.stdout.write(`a request that waits ${awaited}: ${(each / 1024).toFixed(1)} KiB\n`);
    expect(each).toBeLessThanOrEqual(mostBytes);
    resuming.release();
    await new Promise((resolve) => server.close(resolve));
  },
);

test("requests of a server that keeps its readers are noticed to hold connections", async () => {
  const resuming = createResuming({ resume: { holdMs: 60_000 } });
  const server = await listen(resuming.handler);
  const { port } = server.address() as AddressInfo;
  const session = await resuming.open();
  const held = call(port, session, 1, "work").catch(() => "cut");
  await expect.poll(() => connections(server)).toBe(1);
  server.closeAllConnections();
  expect(await held).toBe("cut");
  await new Promise((resolve) => server.close(resolve));
});
