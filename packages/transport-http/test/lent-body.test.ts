import { createHash, randomBytes } from "node:crypto";
import { createServer, get, type IncomingMessage } from "node:http";
import { setTimeout as sleep } from "node:timers/promises";
import { SluiceError, type ByteFlow } from "@sluice/core";
import { createFlowBody } from "@sluice/core/internal";
import type { Reply, TransferResult } from "@sluice/server/internal";
import { expect, test } from "vitest";
import { BufferPool } from "../src/download/buffer-pool.ts";
import { createLentMemory, pumpBody, sendReply } from "../src/download/send-reply.ts";
import type { Outflow } from "../src/download/outflow.ts";
import { listen } from "./serve.ts";

const content = randomBytes(24 * 2 ** 20);
const sha = (bytes: Uint8Array): string => createHash("sha256").update(bytes).digest("hex");

/** A source that reads into the blocks that it gets, as a socket does, and waits while all are lent. */
function lendingFlow({ honest = true, breaksAt = Infinity } = {}) {
  const noted = { lent: 0, cancelled: false };
  let wake = (): void => {};
  const flow: ByteFlow = {
    async pump(write, lending) {
      const ring = Array.from({ length: honest ? lending!.blocks : 1 }, () => {
        const block = {
          bytes: lending!.allocate!(lending!.blockBytes),
          lent: 0,
          release: () => {
            block.lent--;
            wake();
          },
        };
        return block;
      });
      for (let at = 0, turn = 0; at < content.length; turn++) {
        const block = ring[turn % ring.length]!;
        const mayFill = (): boolean => !honest || block.lent === 0 || noted.cancelled;
        while (!mayFill()) await new Promise<void>((resolve) => (wake = resolve));
        if (noted.cancelled || at >= breaksAt)
          throw new SluiceError("interrupted", "test: the connection broke");
        const count = Math.min(block.bytes.length, content.length - at);
        block.bytes.set(content.subarray(at, at + count));
        at += count;
        noted.lent += count;
        // two chunks of a block come with its one function
        const half = Math.ceil(count / 2);
        for (const chunk of [block.bytes.subarray(0, half), block.bytes.subarray(half, count)]) {
          block.lent++;
          const wait = write(chunk, block.release);
          if (wait && honest) await wait;
        }
      }
    },
    cancel() {
      noted.cancelled = true;
      wake();
    },
  };
  return { flow, noted };
}

async function serveFlow(flow: ByteFlow) {
  const results: TransferResult[] = [];
  const server = createServer((_req, res) => {
    const reply: Reply = {
      status: 200,
      headers: ["Content-Length", `${content.length}`],
      transfer: {
        source: { body: createFlowBody(flow) },
        promisedBytes: content.length,
        end: (result) => void results.push(result),
      },
    };
    void sendReply(res, reply);
  });
  return { url: await listen(server), results };
}

/** Reads an answer and rests now and then, so that chunks wait in the server. */
async function readSlowly(url: string): Promise<{ sha256: string; isWhole: boolean }> {
  const answer = await new Promise<IncomingMessage>((resolve) => get(url, resolve));
  const hash = createHash("sha256");
  let rested = 0;
  try {
    for await (const chunk of answer) {
      hash.update(chunk as Buffer);
      if (++rested % 40 === 0) await sleep(3);
    }
  } catch {
    // `complete` tells
  }
  return { sha256: hash.digest("hex"), isWhole: answer.complete };
}

test("lent blocks reach a slow reader byte by byte", { tags: "slow" }, async () => {
  const { flow, noted } = lendingFlow();
  const { url, results } = await serveFlow(flow);
  expect(await readSlowly(url)).toEqual({ sha256: sha(content), isWhole: true });
  await expect.poll(() => results).toEqual([{ outcome: "complete", bytes: content.length }]);
  expect(noted.lent).toBe(content.length);
});

test("negative control: a source that fills blocks which are still lent sends other bytes", async () => {
  const { flow } = lendingFlow({ honest: false });
  const { url } = await serveFlow(flow);
  const { sha256 } = await readSlowly(url);
  expect(sha256).not.toBe(sha(content));
});

test("a lent source that breaks after its first bytes destroys the connection", async () => {
  const { flow } = lendingFlow({ breaksAt: 8 * 2 ** 20 });
  const { url, results } = await serveFlow(flow);
  expect((await readSlowly(url)).isWhole).toBe(false);
  await expect.poll(() => results.map(({ outcome }) => outcome)).toEqual(["failed"]);
});

test("a reader that goes away cancels a lent source, which has not failed", async () => {
  const { flow, noted } = lendingFlow();
  const { url, results } = await serveFlow(flow);
  const answer = await new Promise<IncomingMessage>((resolve) => get(url, resolve));
  answer.once("data", () => answer.destroy());
  await expect.poll(() => results.map(({ outcome }) => outcome)).toEqual(["aborted"]);
  expect(noted.cancelled).toBe(true);
});

test("a source is cancelled at the first chunk after a write failed, before the connection closes", async () => {
  const { flow, noted } = lendingFlow();
  let written = 0;
  const outflow: Outflow = {
    get isBroken() {
      return written > 0;
    },
    sentBytes: 0,
    pendingChunks: 0,
    onBroken() {},
    write(_chunk, done) {
      written += 1;
      done(true);
    },
    untilFewerThan: async () => {},
    end: async () => {},
    dispose() {},
  };
  const pool = new BufferPool();
  await pumpBody(createFlowBody(flow), outflow, { pool, writeHead() {} });
  expect(noted.cancelled).toBe(true);
  // the network may still read from what it was lent
  expect(pool.pooledBytes).toBe(0);
  expect(noted.lent).toBeLessThan(2 ** 20);
});

test("chunks without bytes reach no reader, also as the first and the last", async () => {
  const flow: ByteFlow = {
    async pump(write) {
      for (const chunk of [content.subarray(0, 0), content, content.subarray(0, 0)]) {
        await write(new Uint8Array());
        await write(chunk);
      }
    },
    cancel() {},
  };
  const { url, results } = await serveFlow(flow);
  expect(await readSlowly(url)).toEqual({ sha256: sha(content), isWhole: true });
  await expect.poll(() => results).toEqual([{ outcome: "complete", bytes: content.length }]);
});

test("the memory of one transfer is three buffers of the pool, small ones when the large are out", () => {
  const pool = new BufferPool({ largeBytes: 1_024, smallBytes: 64, maxBytes: 3_072 });
  const first = createLentMemory(pool);
  const second = createLentMemory(pool);
  expect(pool.pooledBytes).toBe(0);
  const blocksOf = ({ lending }: typeof first): number[] =>
    Array.from({ length: lending.blocks }, () => lending.allocate!(lending.blockBytes).length);
  expect(blocksOf(first)).toEqual([1_024, 1_024, 1_024]);
  expect(blocksOf(second)).toEqual([64, 64, 64]);
  expect(pool.pooledBytes).toBe(3_072);
  first.giveBack(true);
  const third = createLentMemory(pool);
  expect(blocksOf(third)).toEqual([1_024, 1_024, 1_024]);
});

test("memory that the network may still read is never lent again", () => {
  const pool = new BufferPool({ largeBytes: 1_024, smallBytes: 64, maxBytes: 2_048 });
  const memory = createLentMemory(pool);
  const block = memory.lending.allocate!(512);
  memory.giveBack(false);
  const next = createLentMemory(pool).lending.allocate!(512);
  expect(next.buffer).not.toBe(block.buffer);
  expect(pool.pooledBytes).toBe(1_024);
});
