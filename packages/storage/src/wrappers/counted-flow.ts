import { type ByteFlow, type Lending, SluiceError, type WriteChunk } from "@sluice/core";
import { type Deadline, onAbort, systemClock } from "@sluice/core/internal";

/** Requirements of a body. */
export interface ExpectedBody {
  /** Start of messages. */
  readonly operation: string;
  /** Bytes that it must have, where that is known. */
  readonly bytes: number | undefined;
  /** Ends a wait for the next chunk. */
  readonly wait: Deadline;
}

/**
 * Counts the bytes of a flow: too few are `interrupted`, too many `corrupt`, and the chunk that makes them complete
 * waits until the source says that it is all. A chunk that does not come in time ends the flow.
 */
export function countedFlow(
  flow: ByteFlow,
  { operation, bytes: expected, wait }: ExpectedBody,
): ByteFlow {
  return {
    async pump(write, lending) {
      let received = 0;
      let last: Uint8Array | undefined;
      let releaseLast: (() => void) | undefined;
      const count: WriteChunk = (chunk, release) => {
        received += chunk.byteLength;
        if (expected === undefined || received < expected) return write(chunk, release);
        if (received > expected)
          throw new SluiceError(
            "corrupt",
            `${operation}: more than the promised ${expected} bytes came`,
          );
        if (chunk.byteLength === 0) return release?.();
        last = chunk;
        releaseLast = release;
        return undefined;
      };
      await pumpInTime(flow, count, lending, wait);
      if (expected !== undefined && received < expected)
        throw new SluiceError(
          "interrupted",
          `${operation}: it ended at ${received} of ${expected} bytes`,
        );
      if (last) await write(last, releaseLast);
    },
    cancel: (reason) => flow.cancel(reason),
  };
}

/** Pumps a flow as long as its chunks come in time. The time stands still while `write` wants no more. */
function pumpInTime(
  flow: ByteFlow,
  write: WriteChunk,
  lending: Lending | undefined,
  { timeoutMs, expired, signal, clock = systemClock }: Deadline,
): Promise<void> {
  return new Promise((resolve, reject) => {
    let since = clock.now();
    let isHeld = false;
    let hasEnded = false;
    let stopTimer = clock.schedule(look, timeoutMs);

    function end(): void {
      hasEnded = true;
      stopTimer();
      stopListening?.();
    }
    function giveUp(reason: unknown): void {
      if (hasEnded) return;
      end();
      reject(reason);
      flow.cancel(reason);
    }
    // one timer for many chunks: it looks at the time of the latest
    function look(): void {
      const leftMs = isHeld ? timeoutMs : since + timeoutMs - clock.now();
      if (leftMs <= 0) giveUp(expired());
      else stopTimer = clock.schedule(look, leftMs);
    }
    function goOn(): void {
      isHeld = false;
      since = clock.now();
    }
    function writeInTime(chunk: Uint8Array, release?: () => void): Promise<void> | void {
      if (hasEnded) return release?.();
      since = clock.now();
      const wait = write(chunk, release);
      if (!wait) return undefined;
      isHeld = true;
      wait.then(goOn, goOn);
      return wait;
    }
    let stopListening: (() => void) | undefined;
    stopListening = onAbort(signal, giveUp);
    if (hasEnded) return stopListening();
    const finish = (): void => {
      if (hasEnded) return;
      end();
      resolve();
    };
    flow
      .pump(writeInTime, lending)
      .then(finish, (error: unknown) => giveUp(signal?.aborted ? signal.reason : error));
  });
}
