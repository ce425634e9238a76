// @module-tag slow
import { execFile } from "node:child_process";
import { mkdtemp, rm } from "node:fs/promises";
import type { ServerResponse } from "node:http";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { promisify } from "node:util";
import { expect, inject, test } from "vitest";
import { replyUrl, startRawServer, type RawHandlers } from "./raw-server.ts";

const mebibyte = 2 ** 20;
const deep = process.env["SLUICE_DEEP"] !== undefined;
const oneByteCount = (deep ? 4 : 0.125) * mebibyte;
const uri = "x://a/b.bin";

/** Repeats a piece until `times` are sent or the client is gone, as fast as it takes them. */
function repeat(res: ServerResponse, piece: string, times = Number.POSITIVE_INFINITY): void {
  const { socket } = res;
  if (!socket) return;
  const many = Math.ceil(2 ** 16 / piece.length);
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

/** Takes a resource of each server in one process, one after another. */
async function take(way: string, ...servers: readonly RawHandlers[]): Promise<Report[]> {
  const started = await Promise.all(servers.map((handlers) => startRawServer(handlers)));
  const directory = await mkdtemp(join(tmpdir(), "sluice-"));
  const program = inject("programs")["packages/client/test/memory-process.ts"]!;
  try {
    const { stdout } = await promisify(execFile)(process.execPath, [
      // garbage does not count as memory that is held
      "--max-semi-space-size=4",
      program,
      way,
      directory,
      ...started.map(({ url }) => url),
    ]);
    return JSON.parse(stdout) as Report[];
  } finally {
    await rm(directory, { recursive: true });
    for (const server of started) await server[Symbol.asyncDispose]();
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

/** Answers to the call itself that never end, and what becomes of them. */
const endless: Record<string, { readonly handlers: RawHandlers; readonly outcome: RegExp }> = {
  "a JSON answer": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "200 OK", "application/json", `[${" ".repeat(999)}`),
    },
    outcome: /^protocol .* more than 262144 bytes/,
  },
  "an event": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "200 OK", "text/event-stream", `data: ${"x".repeat(999)}`),
    },
    outcome: /^protocol .* more than 1048576 bytes/,
  },
  "a stream of events": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "200 OK", "text/event-stream", `data: ${"x".repeat(990)}\n\n`),
    },
    outcome: /^protocol .* more than 1048576 bytes/,
  },
  "a challenge": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "401 Unauthorized", "text/plain", "x".repeat(1_000)),
    },
    outcome: /^unauthenticated /,
  },
  "a refusal": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "403 Forbidden", "application/json", "x".repeat(1_000)),
    },
    outcome: /^permission_denied /,
  },
  "an error in JSON": {
    handlers: {
      stream: (_request, res) =>
        endlessly(res, "400 Bad Request", "application/json", "1".repeat(1_000)),
    },
    outcome: /^protocol .*HTTP 400/,
  },
};

function endlessly(res: ServerResponse, status: string, type: string, text: string): void {
  begin(res, status, type);
  repeat(res, `${text.length.toString(16)}\r\n${text}\r\n`);
}

let reports: Promise<Report[]> | undefined;

test.each(
  Object.entries(endless).map(([name, { outcome }], index) => [name, outcome, index] as const),
)("%s that never ends is given up", async (_name, outcome, index) => {
  const all = Object.values(endless).map(({ handlers }) => handlers);
  const report = (await (reports ??= take("stream", ...all)))[index];
  expect(report?.outcome).toMatch(outcome);
  expect(report?.growth).toBeLessThan(100 * mebibyte);
});

test.each(["save", "cache"])("memory of a %s follows the bytes and not the chunks", async (way) => {
  const [report] = await take(way, oneByteChunks);
  expect(report?.outcome).toBe("taken");
  expect(report?.growth).toBeLessThan((deep ? 220 : 80) * mebibyte);
});
