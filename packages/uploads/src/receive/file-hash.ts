import { builtInModule, createSha256 } from "@sluice/core";
import { Notifier } from "@sluice/core/async";

/** A SHA-256 over a file as it comes. */
export interface FileHash {
  /** Adds bytes. A promise means that the next ones have to wait. */
  update(chunk: Uint8Array): Promise<void> | undefined;
  /** Lower-case hex. Call it once, last. */
  digest(): Promise<string>;
  /** Lets go of it without a result. */
  stop(): void;
}

/** From here on hashing beside the transfer is worth a copy of the bytes. */
const largeBytes = 16 * 1024 * 1024;

/** Starts a hash for a file of about so many bytes: for a large one in a thread, where there are threads. */
export function createFileHash(expectedBytes: number | undefined): FileHash {
  const threaded = (expectedBytes ?? 0) >= largeBytes ? createThreadHash() : undefined;
  if (threaded) return threaded;
  const hash = createSha256();
  return {
    update(chunk) {
      hash.update(chunk);
      return undefined;
    },
    digest: async () => hash.digest(),
    stop() {},
  };
}

const blockBytes = 256 * 1024;
const blockCount = 4;

/**
 * Starts a SHA-256 in a thread that all large files of the process share; `undefined` where there are no
 * threads. Bytes are copied into memory that both sides see, one megabyte for each file.
 */
export function createThreadHash(): FileHash | undefined {
  const openJob = (shared ??= startThread());
  if (!openJob) return undefined;
  const memory = new SharedArrayBuffer(blockBytes * blockCount);
  const bytes = new Uint8Array(memory);
  const job = openJob(memory);
  let block = 0;
  let filled = 0;

  function send(): void {
    job.send({ start: block * blockBytes, end: block * blockBytes + filled });
    block = (block + 1) % blockCount;
    filled = 0;
  }

  async function fill(chunk: Uint8Array): Promise<void> {
    let rest = chunk;
    while (rest.length > 0) {
      // the block that comes next is the one that was sent longest ago
      await job.fewerThan(blockCount);
      rest = put(rest);
    }
  }

  /** Puts what fits into the block; gives the rest. */
  function put(chunk: Uint8Array): Uint8Array {
    const piece = chunk.subarray(0, blockBytes - filled);
    bytes.set(piece, block * blockBytes + filled);
    filled += piece.length;
    if (filled === blockBytes) send();
    return chunk.subarray(piece.length);
  }

  return {
    update(chunk) {
      let rest = chunk;
      while (rest.length > 0 && job.sent() < blockCount) rest = put(rest);
      return rest.length > 0 ? fill(rest) : undefined;
    },
    async digest() {
      await job.fewerThan(blockCount);
      if (filled > 0) send();
      return job.end();
    },
    stop: () => job.stop(),
  };
}

/** One file in the thread. */
interface Job {
  send(range: { readonly start: number; readonly end: number }): void;
  /** Ranges that were sent and are not hashed yet. */
  sent(): number;
  fewerThan(count: number): Promise<void>;
  end(): Promise<string>;
  stop(): void;
}

type OpenJob = (memory: SharedArrayBuffer) => Job;

/** What is used of `node:worker_threads`. */
interface Threads {
  readonly Worker: new (source: string, options: object) => NodeWorker;
}

/** What the thread says of a range that it hashed, or what became of the thread. */
interface ThreadAnswer {
  readonly digest?: string;
  readonly failure?: unknown;
}

interface NodeWorker {
  postMessage(message: object): void;
  on(event: "message", listener: (answer: ThreadAnswer & { id: number }) => void): void;
  on(event: "error" | "exit", listener: (cause: unknown) => void): void;
  ref(): void;
  unref(): void;
}

/** Of the thread that all files share, while it runs. */
let shared: OpenJob | undefined;

function startThread(): OpenJob | undefined {
  const threads = builtInModule("node:worker_threads") as Threads | undefined;
  if (!threads) return undefined;
  // not this process's own arguments: loaders and --input-type would change what the source means
  const worker = new threads.Worker(workerSource, { eval: true, execArgv: [] });
  // oxlint-disable-next-line unicorn/require-post-message-target-origin -- a thread has no origin
  const post = (message: object): void => worker.postMessage(message);
  const jobs = new Map<number, (answer: ThreadAnswer) => void>();
  let lastId = 0;

  const close = (id: number): void => {
    jobs.delete(id);
    // an idle thread keeps no process alive
    if (jobs.size === 0) worker.unref();
  };
  const fail = (cause: unknown): void => {
    shared = undefined;
    const failure = new Error("hash thread: it ended", { cause });
    for (const hear of jobs.values()) hear({ failure });
  };
  worker.unref();
  worker.on("message", ({ id, ...answer }) => jobs.get(id)?.(answer));
  worker.on("error", fail);
  worker.on("exit", fail);

  return (memory) => {
    const id = ++lastId;
    let sent = 0;
    let failure: unknown;
    let digest: string | undefined;
    const news = new Notifier();
    jobs.set(id, (answer) => {
      sent -= 1;
      failure ??= answer.failure;
      digest ??= answer.digest;
      news.notify();
    });
    worker.ref();
    post({ id, memory });
    const until = async (isReady: () => boolean): Promise<void> => {
      for (;;) {
        if (failure) throw failure;
        if (isReady()) return;
        await news.wait();
      }
    };
    return {
      send(range) {
        sent += 1;
        post({ id, ...range });
      },
      sent: () => sent,
      fewerThan: (count) => until(() => sent < count),
      async end() {
        try {
          post({ id, isLast: true });
          await until(() => digest !== undefined);
          return digest!;
        } finally {
          close(id);
        }
      },
      stop() {
        if (!jobs.has(id)) return;
        post({ id, isLast: true });
        close(id);
      },
    };
  };
}

// plain text, so that no build step can put it where a thread would not find it
const workerSource = `
const { parentPort } = require("node:worker_threads");
const { createHash } = require("node:crypto");
const jobs = new Map();
parentPort.on("message", ({ id, memory, start, end, isLast }) => {
  if (memory) return void jobs.set(id, { hash: createHash("sha256"), bytes: new Uint8Array(memory) });
  const { hash, bytes } = jobs.get(id);
  if (!isLast) {
    hash.update(bytes.subarray(start, end));
    return parentPort.postMessage({ id });
  }
  jobs.delete(id);
  parentPort.postMessage({ id, digest: hash.digest("hex") });
});
`;
