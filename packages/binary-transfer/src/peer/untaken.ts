import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import { backgroundClock, type BinaryRef, definedMembers } from "@sluice/core/internal";
import { createBody } from "@sluice/storage/plugin";

interface TakenTransfer {
  readonly ref: BinaryRef;
  /** The bytes, once; errors as the transfer ended. */
  read(signal?: AbortSignal): ReadableStream<Uint8Array>;
}

/** How a transfer ended that the application has not opened: with all of its bytes, or with an error. */
type EndedTransfer = { readonly ref: BinaryRef } & ({ readonly bytes: Uint8Array } | Fault);

interface Fault {
  readonly code: SluiceErrorCode;
  readonly message: string;
}

interface Remembered {
  readonly ending: EndedTransfer;
  readonly stopTimer: () => void;
}

/** Ended transfers that one process remembers: a kilobyte each, and their bytes. */
const maxEnded = 1_024;
const maxEndedBytes = 2 ** 25;

/** By handle: the application has a message, not a connection. */
const underWay = new Map<string, TakenTransfer>();
const endings = new Map<string, Remembered>();
let endedBytes = 0;

export function offerTransfer(handle: string, transfer: TakenTransfer): void {
  underWay.set(handle, transfer);
}

/** True for a transfer in progress that the application has not taken. */
export function isUntaken(handle: string): boolean {
  return underWay.has(handle);
}

/** The transfer of a handle, once; `undefined` when it was taken before, or forgotten. */
export function takeTransfer(handle: string): TakenTransfer | undefined {
  const transfer = underWay.get(handle);
  underWay.delete(handle);
  if (transfer) return transfer;
  const outcome = endings.get(handle)?.ending;
  forgetEnded(handle);
  return outcome && { ref: outcome.ref, read: (signal) => bodyOf(outcome, signal) };
}

/**
 * Keeps the ending of an untaken transfer instead of the transfer, which would keep its connection in memory.
 * A process remembers 1,024 endings for `rememberMs` each, with 32 MiB of bytes; it forgets the oldest first,
 * and never the newest.
 */
export function rememberEnding(
  handle: string,
  ref: BinaryRef,
  end: { readonly bytes: Uint8Array } | { readonly error: unknown },
  rememberMs: number,
): void {
  underWay.delete(handle);
  const stopTimer = backgroundClock.schedule(() => forgetEnded(handle), rememberMs);
  const outcome = "bytes" in end ? { ref, bytes: end.bytes } : { ref, ...faultOf(ref, end.error) };
  endings.set(handle, { ending: outcome, stopTimer });
  endedBytes += bytesOf(outcome);
  for (const oldest of endings.keys()) {
    if (endings.size <= maxEnded && (endedBytes <= maxEndedBytes || endings.size === 1)) break;
    forgetEnded(oldest);
  }
}

export function forgetEnded(handle: string): void {
  const remembered = endings.get(handle);
  if (!remembered) return;
  remembered.stopTimer();
  endings.delete(handle);
  endedBytes -= bytesOf(remembered.ending);
}

function bytesOf(ending: EndedTransfer): number {
  return "bytes" in ending ? ending.bytes.length : 0;
}

/** An error keeps its stack and its causes in memory, and through them a connection. */
function faultOf({ streamId }: BinaryRef, error: unknown): Fault {
  if (SluiceError.is(error)) return { code: error.code, message: error.message };
  return { code: "interrupted", message: `binary: stream ${streamId}: the connection is gone` };
}

function bodyOf(
  ending: EndedTransfer,
  signal: AbortSignal | undefined,
): ReadableStream<Uint8Array> {
  let chunks = "bytes" in ending ? [ending.bytes] : [];
  return createBody(
    definedMembers({
      async next() {
        if ("code" in ending) throw new SluiceError(ending.code, ending.message);
        return chunks.shift();
      },
      release: () => void (chunks = []),
      signal,
    }),
  );
}
