import { randomBytes } from "node:crypto";
import { EventEmitter } from "node:events";
import { mkdtemp, open, rm, truncate, writeFile } from "node:fs/promises";
import { createServer, type ServerResponse } from "node:http";
import { connect } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SluiceError, type FileRegion } from "@sluice/core";
import { nextTurn } from "@sluice/core/internal";
import { createByteAccount, type Reply, type TransferResult } from "@sluice/server/internal";
import { afterAll, beforeAll, describe, expect, onTestFinished, test, vi } from "vitest";
import { BufferPool, type BufferLender } from "../src/download/buffer-pool.ts";
import { createOutflow, type Outflow, type OutflowOptions } from "../src/download/outflow.ts";
import { pumpFile } from "../src/download/pump-file.ts";
import { sendReply } from "../src/download/send-reply.ts";
import { sendResponse } from "../src/node/send-response.ts";
import { listen } from "./serve.ts";

let folder: string;
beforeAll(async () => void (folder = await mkdtemp(join(tmpdir(), "sluice-pump-"))));
afterAll(() => rm(folder, { recursive: true }));

const KiB = 1024;

/** A region of a new file with these bytes, with notes of what was done to it. */
async function createRegion(bytes: Uint8Array, start = 0, end = bytes.length) {
  const path = join(folder, randomBytes(8).toString("hex"));
  await writeFile(path, bytes);
  const file = await open(path);
  const noted = { path, verified: 0, closed: 0 };
  const region: FileRegion = {
    fd: file.fd,
    start,
    end,
    async verify() {
      noted.verified += 1;
    },
    async close() {
      if (noted.closed++ === 0) await file.close();
    },
  };
  return { region, noted };
}

/** Serves one transfer of a file; gives its URL and how the transfer ended. */
async function serveRegion(region: FileRegion, options: OutflowOptions = {}) {
  const results: TransferResult[] = [];
  const reply: Reply = {
    status: 200,
    headers: ["Content-Length", String(region.end - region.start)],
    transfer: {
      source: {
        file: region,
        get body() {
          return new ReadableStream<Uint8Array>({ start: (body) => body.close() });
        },
      },
      promisedBytes: region.end - region.start,
      end: (result) => void results.push(result),
    },
  };
  const url = await listen(createServer((_req, res) => void sendReply(res, reply, options)));
  return { url, results };
}

describe("a file", () => {
  test.each([0, 1, 4_096, 64 * KiB, 128 * KiB, 128 * KiB + 1, 384 * KiB, 3_000 * KiB + 7])(
    "with %i bytes arrives byte for byte, verified once and closed",
    async (size) => {
      const bytes = randomBytes(size);
      const { region, noted } = await createRegion(bytes);
      const { url, results } = await serveRegion(region);
      const received = Buffer.from(await (await fetch(url)).arrayBuffer());
      expect(Buffer.compare(received, bytes)).toBe(0);
      await expect.poll(() => results).toEqual([{ outcome: "complete", bytes: size }]);
      expect(noted.verified).toBe(size === 0 ? 0 : 1);
      expect(noted.closed).toBeGreaterThan(0);
    },
  );

  test("is sent from where the region starts to where it ends", async () => {
    const bytes = randomBytes(700 * KiB);
    const { region } = await createRegion(bytes, 100, 600 * KiB + 1);
    const { url } = await serveRegion(region);
    const received = Buffer.from(await (await fetch(url)).arrayBuffer());
    expect(Buffer.compare(received, bytes.subarray(100, 600 * KiB + 1))).toBe(0);
  });

  test("never arrives whole if it changes on the way: a small one is an error response, a large one breaks", async () => {
    for (const [size, expected] of [
      [4 * KiB, 410],
      [2_000 * KiB, "broken"],
    ] as const) {
      const { region, noted } = await createRegion(randomBytes(size));
      region.verify = async () => {
        throw new SluiceError("precondition_failed", "fs: the file changed");
      };
      const { url, results } = await serveRegion(region);
      const response = await fetch(url);
      const body = await response.arrayBuffer().catch(() => undefined);
      expect(body ? response.status : "broken").toBe(expected);
      await expect.poll(() => results).toMatchObject([{ outcome: "failed" }]);
      expect(noted.closed).toBeGreaterThan(0);
    }
  });

  test("breaks the connection if it is truncated on the way", async () => {
    const { region, noted } = await createRegion(randomBytes(900 * KiB));
    await truncate(noted.path, 500 * KiB);
    const { url, results } = await serveRegion(region);
    await expect(fetch(url).then((response) => response.arrayBuffer())).rejects.toThrow(TypeError);
    await expect
      .poll(() => results)
      .toMatchObject([{ outcome: "failed", error: { code: "interrupted" } }]);
  });
});

/** Asks and then never reads; `closed` tells when the server has gone. */
async function stall(url: string): Promise<{ closed: () => Promise<void> }> {
  const { port } = new URL(url);
  const socket = connect({ port: Number(port), host: "127.0.0.1" });
  const closed = new Promise<void>(
    (resolve) => void socket.on("close", resolve).on("error", () => {}),
  );
  await new Promise<void>((resolve) => void socket.once("connect", resolve));
  socket.pause();
  socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
  onTestFinished(() => void socket.destroy());
  return {
    closed() {
      // only reading tells a paused socket that the server has gone
      socket.resume();
      return closed;
    },
  };
}

describe("a reader", () => {
  test("is dropped if it reads nothing, and its file is closed", async () => {
    const { region, noted } = await createRegion(Buffer.alloc(24 * KiB * KiB));
    const { url, results } = await serveRegion(region, { idleMs: 200 });
    const { closed } = await stall(url);
    await expect.poll(() => results, { timeout: 5_000 }).toMatchObject([{ outcome: "aborted" }]);
    expect(results[0]!.bytes).toBeLessThan(24 * KiB * KiB);
    expect(noted.closed).toBeGreaterThan(0);
    await closed();
  });

  test(
    "is dropped after one timeout, not two, if it reads a part of a chunk and stops",
    { tags: "slow" },
    async () => {
      const idleMs = 2_000;
      const { region } = await createRegion(Buffer.alloc(24 * KiB * KiB));
      const { url, results } = await serveRegion(region, { idleMs });
      const socket = connect(Number(new URL(url).port), "127.0.0.1").on("error", () => {});
      onTestFinished(() => void socket.destroy());
      socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      // the buffers of the system are full by then, and the server has seen no part of this chunk leave
      await new Promise((resolve) => void socket.once("readable", resolve));
      await new Promise((resolve) => setTimeout(resolve, 100));
      socket.read(65_536);
      // a timer of the same process: a machine that is busy is late with both
      const outcomes = await new Promise((resolve) => {
        setTimeout(() => resolve(results), 1.9 * idleMs);
      });
      expect(outcomes).toMatchObject([{ outcome: "aborted" }]);
    },
  );

  test("is dropped if it is slower than the minimum rate", async () => {
    const { region } = await createRegion(Buffer.alloc(24 * KiB * KiB));
    const slow = { minBytesPerSecond: 1e9, idleMs: 200 };
    const { url, results } = await serveRegion(region, slow);
    await stall(url);
    await expect.poll(() => results, { timeout: 5_000 }).toMatchObject([{ outcome: "aborted" }]);
  });

  test("is dropped if it is slower than the minimum rate once its response has the socket again", async () => {
    const destroy = vi.fn<() => void>();
    const stub = Object.assign(new EventEmitter(), {
      req: { headers: {} },
      socket: undefined as object | undefined,
      setTimeout() {},
      write() {},
      destroy,
    });
    const outflow = createOutflow(stub as unknown as ServerResponse, {
      minBytesPerSecond: 1e9,
      idleMs: 40,
    });
    onTestFinished(() => outflow.dispose());
    outflow.write(new Uint8Array(1), () => {});
    await new Promise((resolve) => setTimeout(resolve, 200));
    expect(destroy).not.toHaveBeenCalled();
    stub.socket = { bytesWritten: 1, writableLength: 1 };
    await expect.poll(() => destroy).toHaveBeenCalled();
  });

  test("did not get everything if it leaves before the last chunk, which counts as sent", async () => {
    // more than the system keeps for a reader
    const bytes = Buffer.alloc(24 * KiB * KiB);
    const results: TransferResult[] = [];
    const source = { bytes, body: new ReadableStream<Uint8Array>() };
    const transfer = { source, bytes: bytes.length, end: (r: TransferResult) => results.push(r) };
    const headers = ["Content-Length", String(bytes.length)];
    const server = createServer((req, res) => {
      void sendReply(res, { status: 200, headers, transfer });
      req.socket.destroy();
    });
    await fetch(await listen(server)).catch(() => {});
    // a part of it may have arrived
    await expect.poll(() => results).toEqual([{ outcome: "aborted", bytes: bytes.length }]);
  });

  test("is dropped even if it falls below the minimum rate at the very end", async () => {
    const bytes = Buffer.alloc(24 * KiB * KiB);
    const results: TransferResult[] = [];
    const source = { bytes, body: new ReadableStream<Uint8Array>() };
    const transfer = { source, bytes: bytes.length, end: (r: TransferResult) => results.push(r) };
    const headers = ["Content-Length", String(bytes.length)];
    const slow = { minBytesPerSecond: 1e9, idleMs: 200 };
    const server = createServer(
      (_req, res) => void sendReply(res, { status: 200, headers, transfer }, slow),
    );
    await stall(await listen(server));
    await expect.poll(() => results, { timeout: 5_000 }).toMatchObject([{ outcome: "aborted" }]);
  });

  test("is dropped if it reads nothing of an MCP response, which is cancelled", async () => {
    let cancelled = 0;
    const endless = new ReadableStream<Uint8Array>({
      pull: (body) => body.enqueue(new Uint8Array(KiB * KiB)),
      cancel: () => void (cancelled += 1),
    });
    const unsent = createByteAccount(2 ** 30).open();
    const options = { idleMs: 200, unsent };
    const server = createServer(
      (_req, res) => void sendResponse(res, new Response(endless), options),
    );
    const { closed } = await stall(await listen(server));
    await expect.poll(() => cancelled, { timeout: 5_000 }).toBe(1);
    await closed();
  });

  test("is dropped if it reads nothing of a text", async () => {
    let answer: ServerResponse | undefined;
    const server = createServer((_req, res) => {
      answer = res;
      const reply = { status: 200, headers: [], text: "x".repeat(24 * KiB * KiB) };
      void sendReply(res, reply, { idleMs: 200 });
    });
    const { port } = new URL(await listen(server));
    const socket = connect(Number(port), "127.0.0.1").on("error", () => {});
    onTestFinished(() => void socket.destroy());
    socket.pause().write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
    await expect.poll(() => answer?.destroyed, { timeout: 5_000 }).toBe(true);
  });

  test("keeps its connection when it is done, for as long as the server allows", async () => {
    const server = createServer((_req, res) => {
      void createRegion(Buffer.from("done")).then(({ region: file }) => {
        const source = { file, body: new ReadableStream<Uint8Array>() };
        const transfer = { source, bytes: 4, end: () => {} };
        const headers = ["Content-Length", "4"];
        return sendReply(res, { status: 200, headers, transfer }, { idleMs: 100 });
      });
    });
    server.keepAliveTimeout = 0;
    const { port } = new URL(await listen(server));
    const socket = connect({ port: Number(port), host: "127.0.0.1" });
    let answers = "";
    socket.setEncoding("latin1").on("data", (text) => void (answers += text));
    for (const count of [1, 2]) {
      socket.write("GET / HTTP/1.1\r\nHost: x\r\n\r\n");
      await expect.poll(() => answers.split("done").length - 1).toBe(count);
      await new Promise((resolve) => setTimeout(resolve, 300));
    }
    expect(socket.closed).toBe(false);
    socket.destroy();
  });
});

describe("many readers at once", () => {
  /** Pumps a file to a reader of whom `taken` says what happens to each chunk. */
  async function pumpTo(taken: "at once" | "never", pool: BufferLender): Promise<() => void> {
    const { region } = await createRegion(Buffer.alloc(KiB * KiB));
    let isBroken = false;
    let giveUp = (): void => {};
    const broken = new Promise<void>((resolve) => (giveUp = resolve));
    let underWay = 0;
    const outflow = {
      get isBroken() {
        return isBroken;
      },
      write(_chunk: Uint8Array, done: (isFree: boolean) => void) {
        if (taken === "at once") done(true);
        else underWay += 1;
      },
      untilFewerThan: async (count: number) => (underWay < count ? undefined : broken),
      end: async () => {},
    };
    void pumpFile(region, outflow as unknown as Outflow, { pool, writeHead() {} })
      .catch(() => {})
      .then(() => region.close());
    return () => {
      isBroken = true;
      giveUp();
    };
  }

  test("have few chunks in one turn of the event loop, in which Node accepts one connection", async () => {
    const real = new BufferPool();
    let inTurn = 0;
    const turns: number[] = [];
    const pool: BufferLender = {
      take(bytes) {
        inTurn += 1;
        return real.take(bytes);
      },
    };
    const begun = Promise.all(Array.from({ length: 40 }, () => pumpTo("at once", pool)));
    for (let all = 0; all < 150; all += inTurn) {
      inTurn = 0;
      await nextTurn();
      turns.push(inTurn);
    }
    for (const stop of await begun) stop();
    // two, and those of the turn before whose end this did not see
    expect(Math.max(...turns)).toBeLessThanOrEqual(4);
  });

  test("hold one small chunk each while they take nothing, and no large one is left", async () => {
    const real = new BufferPool({ maxBytes: 0 });
    const lent: number[] = [];
    const pool: BufferLender = {
      take(bytes) {
        const loan = real.take(bytes);
        lent.push(loan.buffer.length);
        return loan;
      },
    };
    const stops = await Promise.all([pumpTo("never", pool), pumpTo("never", pool)]);
    await expect.poll(() => lent.length).toBeGreaterThanOrEqual(2);
    for (let turns = 0; turns < 1_000; turns += 1) await nextTurn();
    for (const stop of stops) stop();
    expect(lent).toEqual([64 * KiB, 64 * KiB]);
  });
});

describe("the buffer pool", () => {
  test("reuses what comes back, never lends one buffer twice, and keeps to its bound", () => {
    const pool = new BufferPool({
      largeBytes: 100,
      smallBytes: 10,
      maxBytes: 200,
      idleBytes: 10,
    });
    const first = pool.take(50);
    const second = pool.take(100);
    const third = pool.take(100);
    const fourth = pool.take(3);
    const lengths = [first, second, third, fourth].map(({ buffer }) => buffer.length);
    expect(lengths).toEqual([100, 100, 10, 10]);
    expect(first.buffer).not.toBe(second.buffer);
    expect(pool.pooledBytes).toBe(200);
    second.release();
    first.release();
    first.release();
    third.release();
    fourth.release();
    expect(pool.pooledBytes).toBe(200);
    const again = pool.take(60);
    expect(again.buffer).toBe(first.buffer);
    again.forget();
    again.release();
    expect(pool.pooledBytes).toBe(100);
    expect(pool.take(3).buffer).toBe(third.buffer);
    expect(pool.take(3).buffer).not.toBe(fourth.buffer);
  });
});

test("bytes that lie in memory are sent as they are, and no body is asked for", async () => {
  const bytes = randomBytes(9 * KiB);
  const results: TransferResult[] = [];
  const reply: Reply = {
    status: 200,
    headers: ["Content-Length", String(bytes.length)],
    transfer: {
      source: {
        bytes,
        get body(): never {
          throw new Error("the body was made");
        },
      },
      promisedBytes: bytes.length,
      end: (result) => void results.push(result),
    },
  };
  const url = await listen(createServer((_req, res) => void sendReply(res, reply)));
  const got = await (await fetch(url)).arrayBuffer();
  expect(Buffer.from(got).equals(bytes)).toBe(true);
  await expect.poll(() => results).toEqual([{ outcome: "complete", bytes: bytes.length }]);
});
