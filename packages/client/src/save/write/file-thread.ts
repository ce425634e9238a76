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

type WriteDone = (writtenBytes: number, fault?: unknown) => void;

/** What the thread says: how a write went, or the digest. */
type ThreadMessage =
  | string
  | {
      readonly written: number;
      readonly fault?: { readonly code?: string; readonly message: string };
    };

/* oxlint-disable unicorn/require-post-message-target-origin -- a thread has no origin */
/**
 * A SHA-256 over an open file that is being written. A small file is hashed here as its chunks are written. Beyond a
 * few megabytes a thread hashes it beside the transfer; that thread can also write, and hashes what it wrote out of the
 * same memory. The rest it reads from the descriptor, only up to the gapless watermark: the bytes that an earlier run
 * kept, and chunks that came ahead of their turn.
 */
export class FileThread {
  readonly #fd: number;
  #worker: Worker | undefined;
  #finished: Promise<string> | undefined;
  #reading: Promise<string> | undefined;
  readonly #hash = createHash("sha256");
  #hashed = 0;
  #isSmall = true;
  #toldBytes = 0;
  #gapless = 0;
  #isReady = false;
  readonly #writes: WriteDone[] = [];

  constructor(fd: number) {
    this.#fd = fd;
  }

  /** Starts the thread early where the file will be large enough for one. */
  expect(size: number): void {
    this.#isSmall = size < stepBytes;
    if (size >= largeBytes) this.#worker ??= this.#start();
  }

  /** Chunks are written at an offset: those of a small file are hashed, while they come in order. */
  wrote(chunks: readonly Uint8Array[], at: number): void {
    if (!this.#isSmall || this.#worker || at !== this.#hashed) return;
    for (const chunk of chunks) {
      this.#hash.update(chunk);
      this.#hashed += chunk.length;
    }
  }

  /** The file is written without a gap up to here. */
  advance(to: number): void {
    this.#gapless = to;
    if (to - this.#toldBytes < stepBytes) return;
    this.#toldBytes = to;
    this.#worker ??= this.#start();
    this.#worker.postMessage({ gapless: this.#gapless });
  }

  isReady(): boolean {
    return this.#isReady;
  }

  /**
   * Writes shared chunks from an offset on; `done` gets the number of bytes written, and the fault that stopped it.
   * After a fault it writes nothing more.
   */
  write(chunks: readonly Uint8Array[], at: number, done: WriteDone): void {
    this.#writes.push(done);
    this.#worker?.postMessage({ gapless: this.#gapless, chunks, at });
  }

  /** Hashes up to the end and gives the digest in lower-case hex. Every write is done by then. */
  async digest(size: number): Promise<string> {
    if (!this.#worker) return (this.#reading = hashRest(this.#fd, this.#hash, this.#hashed, size));
    this.#worker.postMessage({ gapless: size, isLast: true });
    return (await this.#finished) as string;
  }

  /** Ends the work without a result; the descriptor is free afterwards. */
  async stop(): Promise<void> {
    this.#isReady = false;
    await this.#worker?.terminate();
    await this.#reading?.catch(() => {});
  }

  #start(): Worker {
    const started = new Worker(threadSource, {
      eval: true,
      workerData: { fd: this.#fd, maxWriteBytes },
      // not this process's own: loaders and --input-type would change what the source means
      execArgv: [],
    });
    this.#finished = new Promise((resolve, reject) => {
      const end = (error: Error): void => {
        this.#isReady = false;
        for (const done of this.#writes.splice(0)) done(0, error);
        reject(error);
      };
      started.once("online", () => (this.#isReady = true));
      started.on("message", (message: ThreadMessage) => {
        if (typeof message === "string") return resolve(message);
        const { written, fault } = message;
        this.#writes.shift()?.(written, fault && Object.assign(new Error(fault.message), fault));
      });
      started.once("error", end);
      started.once("exit", () => end(new Error("the thread of the file ended")));
    });
    // a caller that waits for the digest sees it; one that stopped has no use for it
    this.#finished.catch(() => {});
    return started;
  }
}
/* oxlint-enable unicorn/require-post-message-target-origin */

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
