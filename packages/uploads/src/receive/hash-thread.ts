import { builtInModule } from "@sluice/core";
import { Notifier } from "@sluice/core/async";

/** A thread that hashes, and memory that it and this one see. */
export interface HashThread {
  /** Begins a hash. */
  open(): HashJob;
  /**
   * Takes a block of memory, until {@link HashJob.send} gives it away. Where none is free the file that has had one
   * longest is asked for it by `giveUp`, which must send it as it is.
   */
  takeBlock(giveUp: () => void): Uint8Array | undefined;
  /** Resolves when a block was given back. */
  blockIsFree(): Promise<void>;
}

/** One file in the thread. */
interface HashJob {
  /** Hashes the first bytes of a block, which is free after that. */
  send(block: Uint8Array, filled: number): void;
  /** Lets the process end until the next block is sent. */
  pause(): void;
  /** Throws why the thread ended. */
  ensureRunning(): void;
  /** Ends the hash: lower-case hex. */
  end(): Promise<string>;
  /** Ends it without a result. May be repeated. */
  stop(): void;
}

/** Bytes of a block: fewer messages to the thread than chunks of a connection. */
const blockBytes = 256 * 1024;
/** Blocks of all files together: what lies between this thread and a hash that is faster than a disk. */
const blockCount = 16;

/** What is used of `node:worker_threads`. */
interface Threads {
  readonly Worker: new (source: string, options: object) => NodeWorker;
}

interface NodeWorker {
  postMessage(message: object): void;
  on(event: "message", listener: (answer: ThreadAnswer) => void): void;
  on(event: "error" | "exit", listener: (cause: unknown) => void): void;
  ref(): void;
  unref(): void;
}

/** What the thread says: a block is hashed, or the digest of a file. */
interface ThreadAnswer {
  readonly id: number;
  readonly block?: number;
  readonly digest?: string;
}

/** What waits for the digest of a file. */
interface Waiting {
  settle(digest: string): void;
  fail(failure: unknown): void;
}

/** Of the thread that all files share, while it runs. */
let shared: HashThread | undefined;

/** The thread of this process; `undefined` where there are no threads. */
export function hashThread(): HashThread | undefined {
  return (shared ??= startThread());
}

function startThread(): HashThread | undefined {
  const threads = builtInModule("node:worker_threads") as Threads | undefined;
  if (!threads) return undefined;
  const memory = new SharedArrayBuffer(blockBytes * blockCount);
  // not this process's own arguments: loaders and --input-type would change what the source means
  const options = { eval: true, execArgv: [], workerData: { memory, blockBytes } };
  const worker = new threads.Worker(workerSource, options);
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const post = (message: object): void => worker.postMessage(message);
  const free = Array.from(
    { length: blockCount },
    (_, n) => new Uint8Array(memory, n * blockBytes, blockBytes),
  );
  /** Files that are filling a block, the longest first. */
  const holders = new Map<Uint8Array, () => void>();
  const open = new Set<number>();
  /** Files whose bytes are coming: an idle thread keeps no process alive. */
  const busy = new Set<number>();
  const waiting = new Map<number, Waiting>();
  const news = new Notifier();
  let failure: Error | undefined;
  let lastId = 0;

  const setBusy = (id: number): void => {
    if (busy.size === 0) worker.ref();
    busy.add(id);
  };
  const setIdle = (id: number): void => {
    if (busy.delete(id) && busy.size === 0) worker.unref();
  };
  const close = (id: number): void => {
    open.delete(id);
    setIdle(id);
  };
  const fail = (cause: unknown): void => {
    shared = undefined;
    failure ??= new Error("hash thread: it ended", { cause });
    for (const waiter of waiting.values()) waiter.fail(failure);
    news.notify();
  };
  worker.unref();
  worker.on("message", ({ id, block, digest }) => {
    if (block !== undefined) {
      free.push(new Uint8Array(memory, block * blockBytes, blockBytes));
      news.notify();
    }
    if (digest !== undefined) waiting.get(id)?.settle(digest);
  });
  worker.on("error", fail);
  worker.on("exit", fail);

  return {
    takeBlock(giveUp) {
      const block = free.pop();
      const [oldest] = holders.values();
      if (block) holders.set(block, giveUp);
      else oldest?.();
      return block;
    },
    blockIsFree: () => (failure ? Promise.resolve() : news.wait()),
    open() {
      const id = ++lastId;
      open.add(id);
      post({ id, isFirst: true });
      return {
        send(block, filled) {
          holders.delete(block);
          setBusy(id);
          post({ id, block: block.byteOffset / blockBytes, filled });
        },
        pause: () => setIdle(id),
        ensureRunning() {
          if (failure) throw failure;
        },
        async end() {
          try {
            return await new Promise<string>((settle, reject) => {
              if (failure) return reject(failure);
              setBusy(id);
              waiting.set(id, { settle, fail: reject });
              post({ id, isLast: true });
            });
          } finally {
            waiting.delete(id);
            close(id);
          }
        },
        stop() {
          if (!open.has(id) || waiting.has(id)) return;
          post({ id, isLast: true });
          close(id);
        },
      };
    },
  };
}

// plain text, so that no build step can put it where a thread would not find it
const workerSource = `
const { parentPort, workerData } = require("node:worker_threads");
const { createHash } = require("node:crypto");
const { memory, blockBytes } = workerData;
const hashes = new Map();
parentPort.on("message", ({ id, block, filled, isFirst, isLast }) => {
  if (isFirst) return void hashes.set(id, createHash("sha256"));
  if (!isLast) {
    hashes.get(id)?.update(new Uint8Array(memory, block * blockBytes, filled));
    return parentPort.postMessage({ id, block });
  }
  const digest = hashes.get(id)?.digest("hex");
  hashes.delete(id);
  parentPort.postMessage({ id, digest });
});
`;
