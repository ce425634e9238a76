import { read } from "node:fs";
import { promisify } from "node:util";
import { SluiceError, type FileRegion } from "@sluice/core";
import type { BufferLender } from "./buffer-pool.ts";
import type { Outflow } from "./outflow.ts";

const firstChunkBytes = 128 * 1024;
const smallestChunkBytes = 64 * 1024;
/** Larger ones save nothing, and the event loop stands still while the network copies one. */
const largestChunkBytes = 256 * 1024;
/** A chunk that takes longer than this to leave makes the next ones smaller. */
const slowMs = 250;

/**
 * Allows only a few chunks in each turn of the event loop, in order of arrival. Otherwise hundreds of readers could
 * fill one turn, and new connections and small requests would wait.
 */
class ChunkTurns {
  readonly #perTurn: number;
  readonly #waiting: (() => void)[] = [];
  #left: number;
  #isCounting = false;

  constructor(perTurn: number) {
    this.#perTurn = perTurn;
    this.#left = perTurn;
  }

  /** Waits for a turn with room for one more chunk. Gives nothing if this turn has room. */
  next(): Promise<void> | void {
    this.#count();
    if (this.#left > 0) this.#left -= 1;
    else return new Promise((resolve) => void this.#waiting.push(resolve));
  }

  #count(): void {
    if (this.#isCounting) return;
    this.#isCounting = true;
    setImmediate(() => {
      this.#isCounting = false;
      const resumed = this.#waiting.splice(0, this.#perTurn);
      this.#left = this.#perTurn - resumed.length;
      if (resumed.length > 0) this.#count();
      for (const resume of resumed) resume();
    });
  }
}

/** One for all transfers of the process. */
const turns = new ChunkTurns(2);

/**
 * Sends a region of a file and ends the response. At most two buffers are in flight while a third fills; a small buffer
 * is the only one. Calls `writeHead` once, before the first chunk. The last chunk leaves after `verify`, so that a file
 * that changed never looks complete. Rejects if the file breaks; `outflow.isBroken` tells that the reader disconnected.
 */
export async function pumpFile(
  region: FileRegion,
  outflow: Outflow,
  { pool, writeHead }: { readonly pool: BufferLender; readonly writeHead: () => void },
): Promise<void> {
  const { fd, start, end } = region;
  let position = start;
  let chunkBytes = firstChunkBytes;
  for (;;) {
    await turns.next();
    if (outflow.isBroken) return;
    const loan = pool.take(Math.min(chunkBytes, end - position));
    const { buffer } = loan;
    const wantedBytes = Math.min(buffer.length, chunkBytes, end - position);
    try {
      await readFully(fd, buffer, wantedBytes, position);
      position += wantedBytes;
      if (position === end) await region.verify();
      if (position - wantedBytes === start) writeHead();
    } catch (error) {
      loan.release();
      throw error;
    }
    const chunk = wantedBytes === buffer.length ? buffer : buffer.subarray(0, wantedBytes);
    const waitedFrom = performance.now();
    await outflow.untilFewerThan(2);
    if (outflow.isBroken) return loan.release();
    if (position === end) {
      await outflow.end(chunk);
      if (outflow.isBroken) loan.forget();
      else loan.release();
      return;
    }
    outflow.write(chunk, (isFree) => (isFree ? loan.release() : loan.forget()));
    // small buffers mean many readers, or a slow one: then only one buffer is in use
    if (buffer.length <= smallestChunkBytes) await outflow.untilFewerThan(1);
    chunkBytes =
      performance.now() - waitedFrom > slowMs
        ? smallestChunkBytes
        : Math.min(chunkBytes * 2, largestChunkBytes);
  }
}

async function readFully(
  fd: number,
  buffer: Buffer,
  bytes: number,
  position: number,
): Promise<void> {
  for (let got = 0; got < bytes;) {
    const { bytesRead } = await readAt(fd, buffer, got, bytes - got, position + got);
    if (bytesRead === 0)
      throw new SluiceError("interrupted", "http: the file ended before its promised size");
    got += bytesRead;
  }
}

const readAt = promisify(read);
