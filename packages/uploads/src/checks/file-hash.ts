import { createSha256 } from "@sluice/core";
import { hashThread, type HashThread } from "./hash-thread.ts";

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
    pause() {},
    digest: async () => hash.digest(),
    stop() {},
  };
}

/** Starts a SHA-256 in a thread that all large files of the process share; `undefined` where there are no threads. */
export function createThreadHash(): FileHash | undefined {
  const thread = hashThread();
  return thread && createSharedHash(thread);
}

/** Blocks that go to the thread in one message: a message costs both threads a wake-up. */
const blocksOfMessage = 8;

/**
 * Hashes over blocks of memory that both sides see. The blocks are the thread's, a few for all files together: this
 * file has some while it fills them, and gives them as they are when another file finds none.
 */
function createSharedHash(thread: HashThread): FileHash {
  const job = thread.open();
  let blocks: Buffer[] = [];
  /** Bytes in the last block. */
  let filled = 0;
  const end = { isStopped: false };

  function send(): void {
    if (blocks.length > 0) job.send(blocks, filled, send);
    blocks = [];
    filled = 0;
  }

  /** Puts what fits into a block; gives the rest, which is all where there is no block. */
  function put(chunk: Uint8Array): Uint8Array {
    let block = blocks.at(-1);
    if (!block || filled === block.length) {
      block = thread.takeBlock(send);
      if (!block) return chunk;
      blocks.push(block);
      filled = 0;
    }
    const piece = chunk.subarray(0, block.length - filled);
    // in shared memory `set` moves word by word
    block.fill(piece, filled, filled + piece.length);
    filled += piece.length;
    if (blocks.length === blocksOfMessage && filled === block.length) send();
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
