import { builtInModule, createSha256, Notifier } from "@sluice/core/internal";

/** A SHA-256 over a file as it comes. */
export interface FileHash {
  /** Adds bytes. A promise means that the next ones have to wait. */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** Lets go of memory until the next bytes come. */
  pause(): void;
  /** Lower-case hex. Call it once, last. */
  digest(): Promise<string>;
  /** Lets go of it without a result. */
  stop(): void;
}

/** From here on hashing beside the transfer is worth a copy of the bytes. */
const largeBytes = 16 * 1024 * 1024;

/** Starts a hash for a file of about this many bytes: for a large one in a thread, where there are threads. */
export function createFileHash(expectedBytes: number | undefined): FileHash {
  const threaded = (expectedBytes ?? 0) >= largeBytes ? createThreadHash() : undefined;
  if (threaded) return threaded;
  const hash = createSha256();
  return {
    update(chunk) {
      hash.update(chunk);
      return undefined;
    },
    pause() {},
    digest: async () => hash.digest(),
    stop() {},
  };
}

/** Starts a SHA-256 in a thread that all large files of the process share; `undefined` without threads. */
export function createThreadHash(): FileHash | undefined {
  const thread = hashThread();
  return thread && createSharedHash(thread);
}

/** Blocks that go to the thread in one message: a message costs both threads a wake-up. */
const blocksOfMessage = 8;

/**
 * Hashes through blocks of memory that both threads see. All files share a few blocks: a file fills those that it has
 * taken, and sends them half full when another file finds none free.
 */
function createSharedHash(thread: HashThread): FileHash {
  const job = thread.open();
  let blocks: Buffer[] = [];
  /** Bytes in the last block. */
  let filledBytes = 0;
  const end = { isStopped: false };

  function send(): void {
    if (blocks.length > 0) job.send(blocks, filledBytes, send);
    blocks = [];
    filledBytes = 0;
  }

  /** Puts what fits into a block; gives the rest, which is all where there is no block. */
  function put(chunk: Uint8Array): Uint8Array {
    let block = blocks.at(-1);
    if (!block || filledBytes === block.length) {
      block = thread.takeBlock(send);
      if (!block) return chunk;
      blocks.push(block);
      filledBytes = 0;
    }
    const piece = chunk.subarray(0, block.length - filledBytes);
    // in shared memory `set` moves word by word
    block.fill(piece, filledBytes, filledBytes + piece.length);
    filledBytes += piece.length;
    if (blocks.length === blocksOfMessage && filledBytes === block.length) send();
    return chunk.subarray(piece.length);
  }

  async function fill(chunk: Uint8Array): Promise<void> {
    for (let rest = chunk; rest.length > 0 && !end.isStopped;) {
      const before = rest;
      rest = put(rest);
      job.ensureRunning();
      if (rest === before) await thread.blockIsFree();
    }
  }

  return {
    update(chunk) {
      job.ensureRunning();
      for (let rest = chunk; rest.length > 0;) {
        const before = rest;
        rest = put(rest);
        if (rest === before) return fill(rest);
      }
      return undefined;
    },
    pause() {
      send();
      job.pause();
    },
    digest() {
      send();
      return job.end();
    },
    stop() {
      end.isStopped = true;
      send();
      job.stop();
    },
  };
}

interface HashThread {
  open(): HashJob;
  /**
   * Takes a block of memory, until {@link HashJob.send} gives it away. If none is free, the `giveUp` of the file that
   * has held blocks longest is called; it must send them, even half full.
   */
  takeBlock(giveUp: () => void): Buffer | undefined;
  blockIsFree(): Promise<void>;
}

interface HashJob {
  /** Hashes blocks, of the last one its first bytes, and frees them. `giveUp` is the one that they were taken with. */
  send(blocks: readonly Uint8Array[], filled: number, giveUp: () => void): void;
  /** Lets the process end until the next block is sent. */
  pause(): void;
  ensureRunning(): void;
  /** Ends the hash: lower-case hex. */
  end(): Promise<string>;
  /** Ends it without a result. May be repeated. */
  stop(): void;
}

const blockBytes = 128 * 1024;
/** Blocks of all files together: 8 MiB, however many files come. */
const blockCount = 64;

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

/** What the thread says: blocks are hashed, or the digest of a file. */
interface ThreadAnswer {
  readonly id: number;
  readonly blocks?: readonly number[];
  readonly digest?: string;
}

interface DigestWaiter {
  settle(digest: string): void;
  fail(failure: unknown): void;
}

/** The thread that all files share, while it runs. */
let shared: HashThread | undefined;

/** The thread of this process; `undefined` without threads. */
function hashThread(): HashThread | undefined {
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
  const blockAt = (n: number): Buffer => Buffer.from(memory, n * blockBytes, blockBytes);
  const free = Array.from({ length: blockCount }, (_, n) => blockAt(n));
  /** Files that are filling blocks, the longest first. */
  const holders = new Set<() => void>();
  const open = new Set<number>();
  /** Files whose bytes are coming: an idle thread keeps no process alive. */
  const busy = new Set<number>();
  const waiters = new Map<number, DigestWaiter>();
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
    for (const waiter of waiters.values()) waiter.fail(failure);
    news.notify();
  };
  worker.unref();
  worker.on("message", ({ id, blocks = [], digest }) => {
    for (const block of blocks) free.push(blockAt(block));
    if (blocks.length > 0) news.notify();
    if (digest !== undefined) waiters.get(id)?.settle(digest);
  });
  worker.on("error", fail);
  worker.on("exit", fail);

  return {
    takeBlock(giveUp) {
      const block = free.pop();
      const [oldest] = holders;
      if (block) holders.add(giveUp);
      else oldest?.();
      return block;
    },
    blockIsFree: () => (failure ? Promise.resolve() : news.wait()),
    open() {
      const id = ++lastId;
      open.add(id);
      post({ id, isFirst: true });
      return {
        send(blocks, filled, giveUp) {
          holders.delete(giveUp);
          setBusy(id);
          post({ id, blocks: blocks.map(({ byteOffset }) => byteOffset / blockBytes), filled });
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
              waiters.set(id, { settle, fail: reject });
              post({ id, isLast: true });
            });
          } finally {
            waiters.delete(id);
            close(id);
          }
        },
        stop() {
          if (!open.has(id) || waiters.has(id)) return;
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
parentPort.on("message", ({ id, blocks, filled, isFirst, isLast }) => {
  if (isFirst) return void hashes.set(id, createHash("sha256"));
  if (!isLast) {
    const hash = hashes.get(id);
    blocks.forEach((block, n) => {
      const length = n === blocks.length - 1 ? filled : blockBytes;
      hash?.update(new Uint8Array(memory, block * blockBytes, length));
    });
    return parentPort.postMessage({ id, blocks });
  }
  const digest = hashes.get(id)?.digest("hex");
  hashes.delete(id);
  parentPort.postMessage({ id, digest });
});
`;
