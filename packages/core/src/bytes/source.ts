/** Bytes `[start, end)`, like `slice`. An absent `end` means the end of the object. */
export interface ByteRange {
  /** First byte, a safe integer from 0. */
  readonly start: number;
  /** One past the last byte; beyond the end of the object it is clamped. */
  readonly end?: number;
}

/**
 * Where bytes come from. It has up to three faces over the same bytes and is used once, through
 * one of them: the portable stream, the local file behind it where there is one, or the bytes
 * themselves where they lie in memory. The taker of a source reads it to its end, cancels
 * `body`, or closes `file`; `bytes` need nothing.
 */
export interface Source {
  /**
   * The portable face. Nothing is read before the first pull. Errors with a `SluiceError`, or
   * with `signal.reason` after an abort; a clean end means that every byte was delivered.
   */
  readonly body: ReadableStream<Uint8Array>;
  /** The fast face, present when the bytes lie in a local file. */
  readonly file?: FileRegion;
  /** All of it, present instead of `file` when it is small and lies in memory. Shared: never write to it. */
  readonly bytes?: Uint8Array;
}

/** Releases a source without reading it. Never rejects. */
export async function discardSource(source: Source, error?: unknown): Promise<void> {
  if (source.bytes) return;
  // asking for `body` may be what makes it, so only where there is no file
  await (source.file?.close() ?? source.body.cancel(error)).catch(() => {});
}

/** A region of an open local file, for readers that can use its descriptor themselves. */
export interface FileRegion {
  /** Open descriptor, readable until `close`. Positional reads only: it may be shared. */
  readonly fd: number;
  /** Offset in bytes of the first byte. */
  readonly start: number;
  /** Offset in bytes one past the last byte. */
  readonly end: number;
  /**
   * Canonical path of the file when it was opened; absent if unknown. Another file may lie there by
   * now: compare device and inode before you send a reader there.
   */
  readonly path?: string;
  /**
   * Throws `precondition_failed` when the file is no longer the one that was opened. Call it
   * after the last read and before the last chunk is handed on: that keeps a mixed version from
   * ever being a complete one.
   */
  verify(): Promise<void>;
  /** Releases the descriptor. Idempotent; `body` is unusable afterwards. */
  close(): Promise<void>;
}

/** Where bytes go. Nothing is visible before `commit`, and nothing is left after `abort`. */
export interface Sink<Result> extends AsyncDisposable {
  /** Resolves when more may be written. The sink owns the chunk from now on. */
  write(chunk: Uint8Array): Promise<void>;
  /** Makes all that was written visible at once. */
  commit(): Promise<Result>;
  /** Discards what was written. Idempotent; a no-op after `commit`. `await using` does the same. */
  abort(reason?: unknown): Promise<void>;
}

/**
 * Makes a stream that asks `next` for a chunk when its reader wants one; `undefined` ends it. `end` is called once,
 * however the stream ends: with the reason if it failed or was cancelled.
 */
export function pullStream(
  next: () => Promise<Uint8Array | undefined>,
  end: (reason?: unknown) => unknown,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const chunk = await next();
          if (chunk) return controller.enqueue(chunk);
        } catch (error) {
          end(error);
          throw error;
        }
        end();
        controller.close();
      },
      async cancel(reason) {
        await end(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
