import { SluiceError } from "@sluice/core";
import { isEventStream, Notifier, pullStream, sleep } from "@sluice/core/internal";
import type { ByteLease } from "@sluice/server/internal";

/** What a chunk that waits costs beside its bytes. */
const chunkBytes = 256;

/**
 * A stream of server-sent events that holds what its reader does not take yet, up to `maxBytes`: what writes them, as
 * the SDK does, does not wait. One event may be larger. `unsent` also counts them. Over either the stream breaks with
 * `interrupted`, `throttled` or `unavailable`, and nothing of it is kept.
 */
export function boundEvents(
  body: ReadableStream<Uint8Array>,
  { maxBytes, unsent }: { readonly maxBytes: number; readonly unsent: ByteLease | undefined },
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  let incoming: Uint8Array[] = [];
  /** The oldest, last one first. */
  let outgoing: Uint8Array[] = [];
  let waitingBytes = 0;
  let end: { readonly error?: unknown } | undefined;
  const news = new Notifier();

  function count(bytes: number): void {
    unsent?.add(bytes);
    waitingBytes += bytes;
  }

  function drop(): void {
    unsent?.sub(waitingBytes);
    waitingBytes = 0;
    incoming = [];
    outgoing = [];
  }

  async function fill(): Promise<void> {
    try {
      for (;;) {
        const { done, value } = await reader.read();
        if (done) break;
        const bytes = value.byteLength + chunkBytes;
        if (waitingBytes > 0 && waitingBytes + bytes > maxBytes)
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
    waitingBytes -= chunk.byteLength + chunkBytes;
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

/** Longest wait for what a response will be: some handlers take their time before they say anything. */
const maxHoldMs = 10_000;

/**
 * Holds the head of a response in events back until its first message, or until `decided` resolves, at most 10 s: the SDK gives
 * the head before its handler has run. A response of another kind is given back as it is.
 */
export async function holdHead(response: Response, decided: Promise<void>): Promise<Response> {
  const { body, status, headers } = response;
  if (!body || !isEventStream(headers)) return response;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const reads: Read[] = [];
  let pending: Promise<Read> | undefined;
  let text = "";
  const decision = new AbortController();
  const late = sleep(maxHoldMs, decision.signal).catch(() => {});
  const isOver = Promise.race([decided, late]).then(() => undefined);
  try {
    for (;;) {
      pending = reader.read();
      const read = await Promise.race([pending, isOver]);
      if (!read) break;
      pending = undefined;
      reads.push(read);
      text += decoder.decode(read.value, { stream: true });
      if (read.done || hasMessage(text)) break;
    }
  } finally {
    decision.abort();
  }
  // a broken stream is seen by its reader
  pending?.catch(() => {});
  async function next(): Promise<Uint8Array | undefined> {
    const read = reads.shift() ?? pending ?? reader.read();
    if (read === pending) pending = undefined;
    return (await read).value;
  }
  const rest = pullStream(next, (reason) => reader.cancel(reason).catch(() => {}));
  const heldResponse = new Response(rest, { status, headers });
  return hasEvents(response) ? heldResponse : markPaced(heldResponse);
}

type Read = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

/** Comments and events without data, such as those that only have an id, tell nothing. */
function hasMessage(text: string): boolean {
  return /^data: ?\S/m.test(text);
}
