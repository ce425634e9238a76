import type { ByteFlow, Lending } from "@sluice/core";

/**
 * A web byte stream over a flow of bytes. Nothing is pumped before the first read, and every chunk waits for its
 * reader; cancelling the stream cancels the flow. A reader that brings its own buffer (`getReader({ mode: "byob" })`)
 * gets the bytes copied into it, at no further memory; any other gets its own chunks.
 */
export function streamOf(flow: ByteFlow): ReadableStream<Uint8Array> {
  let controller: ReadableByteStreamController;
  let started = false;
  /** What is left of the chunk that the flow gave last. */
  let pendingChunk: Uint8Array | undefined;
  let giveBack: (() => void) | undefined;
  let goOn: (() => void) | undefined;

  function give(chunk: Uint8Array): void {
    const request = controller.byobRequest;
    const into = request?.view;
    if (request && into) {
      const count = Math.min(into.byteLength, chunk.length);
      new Uint8Array(into.buffer, into.byteOffset, count).set(chunk.subarray(0, count));
      keep(count < chunk.length ? chunk.subarray(count) : undefined);
      request.respond(count);
    } else {
      // lent memory is filled again; and a stream detaches the memory of what it is given, which
      // takes it from others where it is shared, as small Buffers share that of Node's pool
      const isAlone = chunk.byteLength === chunk.buffer.byteLength;
      const ownChunk = giveBack || !isAlone ? new Uint8Array(chunk) : chunk;
      keep(undefined);
      controller.enqueue(ownChunk);
    }
  }

  function keep(rest: Uint8Array | undefined): void {
    pendingChunk = rest;
    if (rest) return;
    giveBack?.();
    giveBack = undefined;
  }

  async function run(): Promise<void> {
    try {
      await flow.pump((chunk, release) => {
        if (chunk.length === 0) return release?.();
        giveBack = release;
        give(chunk);
        return new Promise((resolve) => (goOn = resolve));
      }, lending);
      controller.close();
      // a reader with a buffer waits for it back
      controller.byobRequest?.respond(0);
    } catch (error) {
      controller.error(error);
    }
  }

  return new ReadableStream(
    {
      // without byte streams, as in some browsers, chunks have to do
      ...("ReadableByteStreamController" in globalThis && { type: "bytes" as const }),
      start(given: ReadableByteStreamController) {
        controller = given;
      },
      pull() {
        if (pendingChunk) give(pendingChunk);
        else if (started) goOn?.();
        else {
          started = true;
          void run();
        }
      },
      cancel(reason: unknown) {
        flow.cancel(reason);
        keep(undefined);
        goOn?.();
      },
    } as object,
    { highWaterMark: 0 },
  );
}

// one block is read into while the other is being copied from
const lending: Lending = { blocks: 2, blockBytes: 256 * 1024 };
