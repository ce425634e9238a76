import { once } from "node:events";
import { createServer } from "node:http";
import { connect, type Socket } from "node:net";
import { createMemoryBackend } from "@sluice/storage";
import { toNodeHandler } from "@sluice/transport-http/node";
import { expect, onTestFinished, test } from "vitest";
import { post, streaming } from "./call.ts";
import { listen, serve } from "./serve.ts";

const uri = "files://demo/a.bin";
const storage = createMemoryBackend({ "a.bin": new Uint8Array(6 << 20), "b.txt": "b" });

async function serveDownloads(limits: { perProcess: number }) {
  const { url, records } = await serve({
    sluice: { storage, grant: { use: "window" }, limits: { streams: limits } },
  });
  const capabilities = streaming({ prefer: ["downloadUrl"] });
  const json = await post(url, "modern", uri, { capabilities });
  const { result } = (await json.json()) as { result: { downloadUrl: string } };
  const { pathname, hostname, port } = new URL(result.downloadUrl);
  const pipeline = (count: number): Socket => {
    const socket = connect(Number(port), hostname).on("error", () => {});
    onTestFinished(() => void socket.destroy());
    socket.write(`GET ${pathname} HTTP/1.1\r\nHost: localhost\r\n\r\n`.repeat(count));
    return socket;
  };
  const ended = () => records.filter(({ mode, outcome }) => mode && outcome !== "issued");
  return { url: result.downloadUrl, pipeline, ended };
}

test(
  "a pipelined request takes its permit when its turn has come, so three connections stop no others",
  { tags: "slow" },
  async () => {
    const { url, pipeline, ended } = await serveDownloads({ perProcess: 4 });
    const sockets = [pipeline(90), pipeline(90), pipeline(90)];
    await Promise.all(sockets.map((socket) => once(socket, "readable")));
    for (let n = 0; n < 5; n++) {
      const response = await fetch(url);
      expect([response.status, (await response.arrayBuffer()).byteLength]).toEqual([200, 6 << 20]);
    }
    for (const socket of sockets) socket.destroy();
    // of each connection one answer had begun
    await expect.poll(() => ended().filter(({ outcome }) => outcome === "aborted")).toHaveLength(3);
    expect(ended()).toHaveLength(8);
  },
);

test(
  "pipelined requests are answered one after the other, and all of them",
  { tags: "slow" },
  async () => {
    const { pipeline, ended } = await serveDownloads({ perProcess: 1 });
    const socket = pipeline(4);
    let bytes = 0;
    for await (const chunk of socket as AsyncIterable<Uint8Array>) {
      bytes += chunk.byteLength;
      if (bytes > 4 * (6 << 20)) break;
    }
    await expect.poll(ended).toHaveLength(4);
    expect(ended().map(({ outcome }) => outcome)).toEqual(Array(4).fill("complete"));
  },
);

test("a connection with more than a hundred requests waiting is destroyed", async () => {
  const { pipeline, ended } = await serveDownloads({ perProcess: 4 });
  const socket = pipeline(150);
  await once(socket.resume(), "close");
  await expect.poll(ended).toHaveLength(1);
});

/** Pipelines this many requests behind a slow one; returns how many were answered when the connection ended. */
async function answeredBehind(fields: string, count: number): Promise<number> {
  let answerFirst: (() => void) | undefined;
  const first = new Promise<void>((resolve) => (answerFirst = resolve));
  const handler = toNodeHandler({
    async fetch(request) {
      if (new URL(request.url).pathname === "/first") await first;
      return new Response("answered");
    },
  });
  let arrived = 0;
  const server = createServer((req, res) => {
    handler(req, res);
    if (++arrived === 1 + count) answerFirst?.();
  });
  const origin = await listen(server);
  const socket = connect(Number(new URL(origin).port), "127.0.0.1").on("error", () => {});
  onTestFinished(() => void socket.destroy());
  const more = `GET /more HTTP/1.1\r\nHost: x\r\n${fields}`;
  socket.write("GET /first HTTP/1.1\r\nHost: x\r\n\r\n");
  socket.write(`${more}\r\n`.repeat(count - 1));
  socket.write(`${more}Connection: close\r\n\r\n`);
  let said = "";
  socket.setEncoding("latin1").on("data", (chunk: string) => void (said += chunk));
  await new Promise((resolve) => void socket.once("close", resolve));
  return said.split("answered").length - 1;
}

test(
  "a connection whose waiting requests have more than 256 KiB is destroyed, with fewer they are answered",
  { tags: "slow" },
  async () => {
    expect(await answeredBehind(`X-Long: ${"x".repeat(15_000)}\r\n`, 60)).toBe(0);
    expect(await answeredBehind(`X-Long: ${"x".repeat(2_000)}\r\n`, 99)).toBe(100);
  },
);
