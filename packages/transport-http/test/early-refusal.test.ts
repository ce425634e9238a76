import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { toNodeHandler, hardenServer, type NodeHandlerOptions } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";
import { listen } from "./serve.ts";

const mib = 2 ** 20;

/** A hardened server whose handler reads nothing of a request. */
function start(options: NodeHandlerOptions = {}): Promise<string> {
  const handler = { fetch: async () => new Response("reached") };
  const listener = toNodeHandler(handler, { onError: () => {}, ...options });
  return listen(hardenServer(createServer(listener)));
}

const json = { "content-type": "application/json" };
const manyFields = Object.fromEntries(Array.from({ length: 70 }, (_, at) => [`x-${at}`, "1"]));
const refuse: NodeHandlerOptions = {
  authenticate: (_req, res) => void res.writeHead(401).end(),
};
const fail: NodeHandlerOptions = {
  authenticate: () => {
    throw new Error("no key");
  },
};

test.each<[string, number, RequestInit, NodeHandlerOptions?]>([
  ["JSON beyond the limit", 413, { headers: json }],
  ["too many header fields", 431, { headers: manyFields }],
  ["a refused token", 401, {}, refuse],
  ["a broken check of tokens", 500, {}, fail],
  ["another spelling of the target", 400, {}],
])(
  "a client that still writes 6 MB receives the refusal of %s: %i, every time",
  async (_what, status, init, options) => {
    const origin = await start(options);
    const url = status === 400 ? `${origin}/a%2fb` : origin;
    const body = new Uint8Array(6_000_000);
    const outcomes = new Set<number | string>();
    for (let turn = 0; turn < 20; turn++)
      outcomes.add(
        await fetch(url, { method: "POST", body, ...init }).then(
          (answer) => answer.status,
          (error: Error) => String(error.cause),
        ),
      );
    expect([...outcomes]).toEqual([status]);
  },
);

/** Begins a request of 1 GiB, which is refused for its length, and reads no more than that. */
async function beginLarge(origin: string): Promise<Socket> {
  const socket = connect(Number(new URL(origin).port), "127.0.0.1").on("error", () => {});
  onTestFinished(() => void socket.destroy());
  const head = `Host: x\r\nContent-Type: application/json\r\nContent-Length: ${1_024 * mib}`;
  socket.write(`POST / HTTP/1.1\r\n${head}\r\n\r\n`);
  const [answer] = (await once(socket, "data")) as [Buffer];
  expect(answer.toString()).toMatch(/^HTTP\/1\.1 413 /);
  return socket;
}

test("the rest of a refused request is read up to 64 MiB, then its connection ends", async () => {
  const socket = await beginLarge(await start());
  const chunk = Buffer.alloc(mib);
  let sentBytes = 0;
  for (let isTaken = true; isTaken && sentBytes < 200 * mib; sentBytes += chunk.length)
    isTaken = await new Promise<boolean>((resolve) =>
      socket.write(chunk, (error) => resolve(!error)),
    );
  expect(sentBytes).toBeGreaterThan(64 * mib);
  expect(sentBytes).toBeLessThan(100 * mib);
});

test("a refused request whose sender falls silent ends within 3 s", { tags: "slow" }, async () => {
  const socket = await beginLarge(await start());
  const begunAt = performance.now();
  await once(socket.resume(), "close");
  expect(performance.now() - begunAt).toBeLessThan(3_000);
});

test("a refused request whose sender trickles ends within 12 s", { tags: "slow" }, async () => {
  const socket = await beginLarge(await start());
  const begunAt = performance.now();
  const trickle = setInterval(() => socket.write("x"), 500);
  onTestFinished(() => clearInterval(trickle));
  await once(socket.resume(), "close");
  expect(performance.now() - begunAt).toBeLessThan(12_000);
});
