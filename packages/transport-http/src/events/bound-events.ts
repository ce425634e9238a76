import { isEventStream, pullStream, SluiceError } from "@sluice/core";
import { Notifier } from "@sluice/core/async";
import type { ByteLease } from "@sluice/server/transport";

/** What a chunk that waits costs beside its bytes. */
const chunkBytes = 256;

/**
 * A stream of server-sent events that holds what its reader does not take yet, up to `maxBytes`: what writes them, as the SDK
 * does, does not wait. One event may be larger. `unsent` counts them, too. Over either the stream breaks with `interrupted`, `throttled`
 * or `unavailable`, and nothing of it is kept.
 */
export function boundEvents(
  body: ReadableStream<Uint8Array>,
  { maxBytes, unsent }: { readonly maxBytes: number; readonly unsent: ByteLease | undefined },
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let incoming: Uint8Array[] = [];
  /** The oldest, last one first. */
  let outgoing: Uint8Array[] = [];
  let waiting = 0;
  let end: { readonly error?: unknown } | undefined;
  const news = new Notifier();

  function count(bytes: number): void {
    unsent?.add(bytes);
    waiting += bytes;
  }

  function drop(): void {
    unsent?.sub(waiting);
    waiting = 0;
    incoming = [];
    outgoing = [];
  }

  async function fill(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const bytes = value.byteLength + chunkBytes;
        if (waiting > 0 && waiting + bytes > maxBytes)
          throw new SluiceError("interrupted", "http: the events of a stream are not taken");
        count(bytes);
        incoming.push(value);
        news.notify();
      }
      end = {};
    } catch (error) {
      drop();
      end = { error };
      reader.cancel(error).catch(() => {});
    }
    news.notify();
  }

  function take(): Uint8Array | undefined {
    if (outgoing.length === 0) {
      outgoing = incoming.toReversed();
      incoming = [];
    }
    const chunk = outgoing.pop();
    if (!chunk) return undefined;
    unsent?.sub(chunk.byteLength + chunkBytes);
    waiting -= chunk.byteLength + chunkBytes;
    return chunk;
  }

  async function next(): Promise<Uint8Array | undefined> {
    for (;;) {
      const chunk = take();
      if (chunk) return chunk;
      if (end && "error" in end) throw end.error;
      if (end) return undefined;
      await news.wait();
    }
  }

  void fill();
  return pullStream(next, (reason) => {
    drop();
    return reader.cancel(reason).catch(() => {});
  });
}

/** A response whose events are made as they are taken: none of them waits. */
class PacedResponse extends Response {}

/** A response as one whose events are made as they are taken. */
export function markPaced({ body, status, statusText, headers }: Response): Response {
  return new PacedResponse(body, { status, statusText, headers });
}

/** Whether a response has events that do not wait for their reader. */
export function hasEvents(
  response: Response,
): response is Response & { readonly body: ReadableStream<Uint8Array> } {
  return (
    response.body !== null &&
    isEventStream(response.headers) &&
    !(response instanceof PacedResponse)
  );
}
