import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { replyUrl, startRawServer, type RawHandlers } from "./raw-server.ts";

const mebibyte = 2 ** 20;
const oneByteCount = (process.env["SLUICE_DEEP"] ? 4 : 0.5) * mebibyte;
const uri = "x://a/b.bin";

/** Repeats a piece until `times` are sent or the client is gone, as fast as it takes them. */
function repeat(res: ServerResponse, piece: string, times = Number.POSITIVE_INFINITY): void {
  const { socket } = res;
  if (!socket) return;
  const many = 10_000;
  const block = Buffer.from(piece.repeat(many));
  let left = times;
  const go = (): void => {
    while (left > 0 && !socket.destroyed) {
      left -= many;
      if (!socket.write(block)) return void socket.once("drain", go);
    }
    if (left <= 0) socket.end("0\r\n\r\n");
  };
  go();
}

/** The head of a chunked answer that names the resource. */
function begin(res: ServerResponse, status: string, type: string, more = ""): void {
  res.socket?.write(
    `HTTP/1.1 ${status}\r\nContent-Type: ${type}\r\nTransfer-Encoding: chunked\r\n${more}\r\n`,
  );
}

interface Report {
  readonly growth: number;
  readonly outcome: string;
}

async function take(way: string, handlers: RawHandlers): Promise<Report> {
  await using server = await startRawServer(handlers);
  const directory = await mkdtemp(join(tmpdir(), "sluice-"));
  const program = inject("programs")["packages/client/test/memory-process.ts"]!;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [program, server.url, way, directory]);
    return JSON.parse(stdout) as Report;
  } finally {
    await rm(directory, { recursive: true });
  }
}

/** Chunks of one byte: a client that keeps a view of each takes about 650 times their number. */
const oneByteChunks: RawHandlers = {
  stream: (request, res, { headers }) => replyUrl(res, request, `http://${headers.host}/bytes`),
  get(_req, res) {
    begin(res, "200 OK", "application/octet-stream", `MCP-Resource-Uri: ${uri}\r\n`);
    repeat(res, "1\r\nX\r\n", oneByteCount);
  },
};

test.each(["save", "cache"])("to %s, memory follows the bytes and not the chunks", async (way) => {
  const { growth, outcome } = await take(way, oneByteChunks);
  expect(outcome).toBe("taken");
  expect(growth).toBeLessThan(150 * mebibyte);
});
