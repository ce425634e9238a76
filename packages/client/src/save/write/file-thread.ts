import { createHash, type Hash } from "node:crypto";
import { read } from "node:fs";
import { promisify } from "node:util";
import { Worker } from "node:worker_threads";
import { threadSource } from "./file-thread-source.ts";

/**
 * Maximum bytes of one write. For more, Linux keeps larger pieces of its page cache together, and looks for memory to
 * make them of: where that is scarce, or has to come back from the host of a virtual machine, a write took up to ten
 * times as long. Below this it hardly matters.
 */
export const maxWriteBytes: number = 192 * 1_024;

/**
 * A SHA-256 over an open file that is being written. A small file is hashed here as its chunks are
 * written. Beyond a few megabytes a thread hashes it beside the transfer; that thread can also write,
 * and hashes what it wrote out of the same memory.
 */
export interface FileThread {
  /** Starts the thread early where the file will be large enough for one. */
  expect(size: number): void;
  /** Chunks are written at an offset: those of a small file are hashed, while they come in order. */
  wrote(chunks: readonly Uint8Array[], at: number): void;
  /** The file is written without a gap up to here. */
  advance(to: number): void;
  /** True while the thread takes writes. */
  isReady(): boolean;
  /**
   * Writes shared chunks from an offset on; `done` gets the number of bytes written, and the fault that stopped it.
   * After a fault it writes nothing more.
   */
  write(chunks: readonly Uint8Array[], at: number, done: WriteDone): void;
  /** Hashes up to the end and gives the digest in lower-case hex. Every write is done by then. */
  digest(size: number): Promise<string>;
  /** Ends the work without a result; the descriptor is free afterwards. */
  stop(): Promise<void>;
}

type WriteDone = (writtenBytes: number, fault?: unknown) => void;

/** What the thread says: how a write went, or the digest. */
type ThreadMessage =
  | string
  | {
      readonly written: number;
      readonly fault?: { readonly code?: string; readonly message: string };
    };

/**
 * What the thread did not write itself, it reads from the descriptor, only up to the gapless watermark: the bytes that
 * an earlier run kept, and chunks that came ahead of their turn.
 */
export function createFileThread(fd: number): FileThread {
  let worker: Worker | undefined;
  let finished: Promise<string> | undefined;
  let reading: Promise<string> | undefined;
  const hash = createHash("sha256");
  let hashed = 0;
  let isSmall = true;
  let toldBytes = 0;
  let gapless = 0;
  let isReady = false;
  const writes: WriteDone[] = [];

  function start(): Worker {
    const started = new Worker(threadSource, {
      eval: true,
      workerData: { fd, maxWriteBytes },
      // not this process's own: loaders and --input-type would change what the source means
      execArgv: [],
    });
    finished = new Promise((resolve, reject) => {
      function end(error: Error): void {
        isReady = false;
        for (const done of writes.splice(0)) done(0, error);
        reject(error);
      }
      started.once("online", () => (isReady = true));
      started.on("message", (message: ThreadMessage) => {
        if (typeof message === "string") return resolve(message);
        const { written, fault } = message;
        writes.shift()?.(written, fault && Object.assign(new Error(fault.message), fault));
      });
      started.once("error", end);
      started.once("exit", () => end(new Error("the thread of the file ended")));
    });
    // a caller that waits for the digest sees it; one that stopped has no use for it
    finished.catch(() => {});
    return started;
  }

  /* oxlint-disable unicorn/require-post-message-target-origin -- a thread has no origin */
  return {
    expect(size) {
      isSmall = size < stepBytes;
      if (size >= largeBytes) worker ??= start();
    },
    wrote(chunks, at) {
      if (!isSmall || worker || at !== hashed) return;
      for (const chunk of chunks) {
        hash.update(chunk);
        hashed += chunk.length;
      }
    },
    advance(to) {
      gapless = to;
      if (to - toldBytes < stepBytes) return;
      toldBytes = to;
      worker ??= start();
      worker.postMessage({ gapless });
    },
    isReady: () => isReady,
    write(chunks, at, done) {
      writes.push(done);
      worker?.postMessage({ gapless, chunks, at });
    },
    async digest(size) {
      if (!worker) return (reading = hashRest(fd, hash, hashed, size));
      worker.postMessage({ gapless: size, isLast: true });
      return (await finished) as string;
    },
    async stop() {
      isReady = false;
      await worker?.terminate();
      await reading?.catch(() => {});
    },
  };
  /* oxlint-enable unicorn/require-post-message-target-origin */
}

const stepBytes = 8 * 2 ** 20;
const largeBytes = 32 * 2 ** 20;

/** Reads the unhashed bytes: those that an earlier run kept, and those that came out of order. */
async function hashRest(fd: number, hash: Hash, hashed: number, size: number): Promise<string> {
  const buffer = Buffer.allocUnsafeSlow(Math.min(size - hashed, 512 * 1_024));
  for (let at = hashed; at < size;) {
    const { bytesRead } = await readAt(fd, buffer, 0, Math.min(buffer.length, size - at), at);
    if (bytesRead === 0) throw new Error("the file is shorter than it was written");
    hash.update(buffer.subarray(0, bytesRead));
    at += bytesRead;
  }
  return hash.digest("hex");
}

const readAt = promisify(read);
