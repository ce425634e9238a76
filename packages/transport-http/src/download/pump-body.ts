import { SluiceError, type Lending } from "@sluice/core";
import { flowOf } from "@sluice/core/internal";
import type { BufferLender } from "./buffer-pool.ts";
import type { Outflow } from "./outflow.ts";

interface BodyPump {
  /** Bytes that it promised. */
  readonly bytes?: number | undefined;
  /** Memory for a source that can read into it. */
  readonly pool: BufferLender;
  /** Called once, before the first chunk or the end. */
  readonly begin: () => void;
}

/**
 * Sends a stream and ends the response, with at most two chunks under way. Rejects when the source breaks or has not the
 * bytes that it promised; a reader that goes away cancels it and shows in `outflow.isBroken`.
 */
export async function pumpBody(
  body: ReadableStream<Uint8Array>,
  outflow: Outflow,
  { bytes, pool, begin }: BodyPump,
): Promise<void> {
  const flow = flowOf(body);
  const memory = createLentMemory(pool);
  let received = 0;
  let isSent = false;

  function send(chunk: Uint8Array, release?: () => void): Promise<void> | void {
    // a write can fail before the connection closes
    if (outflow.isBroken) flow.cancel();
    // Node never reports an empty chunk as taken
    if (outflow.isBroken || chunk.byteLength === 0) return release?.();
    if (received === 0) begin();
    received += chunk.byteLength;
    if (bytes !== undefined && received > bytes)
      throw new SluiceError(
        "corrupt",
        `http: the source gave more than its promised ${bytes} bytes`,
      );
    // a new function: chunks of one block share their `release`, and the outflow tells chunks apart by it
    outflow.write(chunk, () => release?.());
    return outflow.pendingChunks < 2 ? undefined : outflow.fewerThan(2);
  }

  outflow.onBroken(() => flow.cancel());
  try {
    await flow.pump(send, memory.lending);
    if (outflow.isBroken) return;
    if (bytes !== undefined && received < bytes)
      throw new SluiceError(
        "interrupted",
        `http: the source ended at ${received} of ${bytes} bytes`,
      );
    if (received === 0) begin();
    await outflow.end();
    isSent = !outflow.isBroken;
  } catch (error) {
    flow.cancel(error);
    // a source that was cancelled because its reader disconnected has not failed
    if (!outflow.isBroken) throw error;
  } finally {
    memory.end(isSent);
  }
}

/** Blocks of the pool that the source of one transfer reads into. */
interface LentMemory {
  readonly lending: Lending;
  /** Returns them. Pass `false` while the network may still be reading from them. */
  end(isIdle: boolean): void;
}

/** A large buffer, or a small one while there are no others. */
const blockBytes = 256 * 1024;
/** Two are being sent while one is filled. Wrappers that hold chunks ask for more. */
const blocks = 3;

/** Memory for one transfer, taken when its source begins to read into it. */
export function createLentMemory(pool: BufferLender): LentMemory {
  const loans: ReturnType<BufferLender["take"]>[] = [];
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
