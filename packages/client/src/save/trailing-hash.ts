import { createHash } from "node:crypto";
import { read } from "node:fs";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";

/** A SHA-256 over an open file that follows behind its writer. */
export interface TrailingHash {
  /** The file is written without a gap up to here. */
  advance(to: number): void;
  /** Hashes up to the end and gives the digest in lower-case hex. */
  digest(size: number): Promise<string>;
  /** Ends the work without a result; the descriptor is free afterwards. */
  stop(): Promise<void>;
}

/**
 * Hashes what is in the file, not what was meant to be: from the descriptor, and behind the
 * gapless watermark only. Beyond a few megabytes a worker thread does it beside the transfer.
 */
export function createTrailingHash(fd: number): TrailingHash {
  let worker: Worker | undefined;
  let finished: Promise<string> | undefined;
  let small: Promise<string> | undefined;
  let told = 0;

  function start(): Worker {
    const started = new Worker(workerSource, {
      eval: true,
      workerData: fd,
      // not this process's own: loaders and --input-type would change what the source below means
      execArgv: [],
    });
    finished = new Promise((resolve, reject) => {
      started.once("message", resolve);
      started.once("error", reject);
      started.once("exit", () => reject(new Error("the hashing thread ended")));
    });
    // a caller that waits for the digest sees it; one that stopped has no use for it
    finished.catch(() => {});
    return started;
  }

  return {
    advance(to) {
      if (to - told < stepBytes) return;
      told = to;
      worker ??= start();
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      worker.postMessage({ to });
    },
    async digest(size) {
      if (!worker) return (small = hashFile(fd, size));
      // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
      worker.postMessage({ to: size, last: true });
      return (await finished) as string;
    },
    async stop() {
      await worker?.terminate();
      await small?.catch(() => {});
    },
  };
}

const stepBytes = 8 * 2 ** 20;

// plain text, so that no build step can put it where a thread would not find it
const workerSource = `
const { parentPort, workerData: fd } = require("node:worker_threads");
const { readSync } = require("node:fs");
const hash = require("node:crypto").createHash("sha256");
const buffer = Buffer.allocUnsafeSlow(512 * 1024);
let at = 0;
parentPort.on("message", ({ to, last }) => {
  while (at < to) {
    const bytes = readSync(fd, buffer, 0, Math.min(buffer.length, to - at), at);
    if (bytes === 0) throw new Error("the file is shorter than it was written");
    hash.update(buffer.subarray(0, bytes));
    at += bytes;
  }
  if (last) {
    parentPort.postMessage(hash.digest("hex"));
    parentPort.close();
  }
});
`;

async function hashFile(fd: number, size: number): Promise<string> {
  const hash = createHash("sha256");
  const buffer = Buffer.allocUnsafeSlow(Math.max(1, Math.min(size, 512 * 1_024)));
  for (let at = 0; at < size;) {
    const { bytesRead } = await readAt(fd, buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) throw new Error("the file is shorter than it was written");
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash.digest("hex");
}

const readAt = promisify(read);
