import { SluiceError } from "@sluice/core";
import { nextTurn } from "@sluice/core/async";
import { createBody } from "@sluice/storage/plugin";
import type { ProvidedSource } from "./provided-source.ts";
import type { ProviderCall } from "./provider-call.ts";

/** After so many bytes other work of the process gets a turn: a generator that waits for nothing would leave none. */
const bytesBetweenTurns = 2 ** 20;
/** What a chunk counts at least. */
const leastCounted = 4_096;

/** Which bytes of a source make a body. */
interface TransferOptions {
  /** Bytes that are left out at the start. */
  readonly skip: number;
  /** Bytes that are given; then the source is not read on. `Infinity`: to its end. */
  readonly take: number;
  /** More bytes are `too_large`. */
  readonly maxBytes: number;
  /** Called after the last byte, before the body ends. What it throws is the body's error. */
  readonly verify: () => Promise<void>;
  readonly signal: AbortSignal | undefined;
}

/** The bytes of a source as a body. It ends the call and the source with itself: at its end, an error, a cancel or an abort. */
export function createTransferBody(
  source: ProvidedSource,
  call: ProviderCall,
  { skip, take, maxBytes, verify, signal }: TransferOptions,
): ReadableStream<Uint8Array> {
  let toSkip = skip;
  let left = take;
  let room = maxBytes;
  let sinceTurn = 0;

  /** The part of a chunk that lies in what is given. */
  function cut(chunk: Uint8Array): Uint8Array {
    const from = Math.min(toSkip, chunk.byteLength);
    const part = chunk.subarray(from, Math.min(chunk.byteLength, from + left));
    toSkip -= from;
    left -= part.byteLength;
    room -= part.byteLength;
    return part;
  }

  return createBody({
    async next() {
      while (left > 0) {
        const chunk = await call.wait(source.next());
        if (!chunk) break;
        sinceTurn += Math.max(chunk.byteLength, leastCounted);
        if (sinceTurn >= bytesBetweenTurns) {
          sinceTurn = 0;
          await nextTurn();
        }
        const part = cut(chunk);
        if (room < 0)
          throw new SluiceError(
            "too_large",
            `${call.operation}: more than the ${maxBytes} bytes that the provider may give`,
          );
        if (part.byteLength > 0) return part;
      }
      await verify();
      return undefined;
    },
    release(reason) {
      call.end(reason);
      source.release(reason);
    },
    signal,
  });
}
