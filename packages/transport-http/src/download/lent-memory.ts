import type { Lending } from "@sluice/core";
import type { BufferPool } from "./buffer-pool.ts";

/** Blocks of the pool that the source of one transfer reads into. */
export interface LentMemory {
  readonly lending: Lending;
  /** Returns them. Pass `false` while the network may still be reading from them. */
  end(isIdle: boolean): void;
}

/** A large buffer, or a small one while there are no others. */
const blockBytes = 256 * 1024;
/** Two are under way while one is filled. Wrappers that hold chunks ask for more. */
const blocks = 3;

/** Memory for one transfer, taken when its source begins to read into it. */
export function createLentMemory(pool: BufferPool): LentMemory {
  const loans: ReturnType<BufferPool["take"]>[] = [];
  function allocate(bytes: number): Uint8Array {
    const loan = pool.take(bytes);
    loans.push(loan);
    return loan.buffer;
  }

  return {
    lending: { blocks, blockBytes, allocate },
    end(isIdle) {
      for (const loan of loans) {
        if (isIdle) loan.release();
        else loan.forget();
      }
    },
  };
}
