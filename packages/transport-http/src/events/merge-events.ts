import { Notifier, pullStream } from "@sluice/core/internal";

/** Where further messages come from. */
export interface MessageSource {
  /** The next message; `undefined` when there will be none. Called again only after it settled. */
  next(): Promise<object | undefined>;
  /** Called once, when the stream ends, however it does. */
  close(): void;
}

/**
 * A stream of server-sent events with further JSON-RPC messages in it. They come after the first event,
 * between events and never inside one; nothing is taken from either side before the reader wants it.
 */
export function mergeEvents(
  body: ReadableStream<Uint8Array>,
  source: MessageSource,
): ReadableStream<Uint8Array> {
  const reader = body.getReader();
  const news = new Notifier();
  const tail = createTail();
  const takeEvent = createInlet(() => reader.read(), news);
  const takeMessage = createInlet(() => source.next(), news);
  let waitingMessage: object | undefined;

  async function next(): Promise<Uint8Array | undefined> {
    for (;;) {
      if (waitingMessage && tail.isBetween()) {
        const event = encodeEvent(waitingMessage);
        waitingMessage = undefined;
        return event;
      }
      const event = takeEvent();
      if (event?.done) return undefined;
      if (event) {
        tail.add(event.value);
        return event.value;
      }
      const message = waitingMessage ? undefined : takeMessage();
      if (message) waitingMessage = message;
      else await news.wait();
    }
  }

  return pullStream(next, (reason) => {
    source.close();
    return reader.cancel(reason).catch(() => {});
  });
}

/**
 * Asks for one thing at a time, keeps it until it is taken, and gives what has come; `undefined` when nothing has.
 * Racing the two promises instead would leave something behind at each event, for as long as no message comes.
 */
function createInlet<Value>(ask: () => Promise<Value>, news: Notifier): () => Value | undefined {
  let isAsked = false;
  let arrived: { readonly value: Value } | undefined;
  let failure: { readonly error: unknown } | undefined;
  return () => {
    if (failure) throw failure.error;
    if (arrived) {
      const { value } = arrived;
      arrived = undefined;
      // the end stays the end
      isAsked = value === undefined;
      return value;
    }
    if (isAsked) return undefined;
    isAsked = true;
    ask().then(
      (value) => {
        arrived = { value };
        news.notify();
        return undefined;
      },
      (error: unknown) => {
        failure = { error };
        news.notify();
      },
    );
    return undefined;
  };
}

function encodeEvent(message: object): Uint8Array {
  return new TextEncoder().encode(`event: message\ndata: ${JSON.stringify(message)}\n\n`);
}

/** Knows whether an event has just ended: an empty line, whatever ends lines here. */
function createTail() {
  let last = "";
  return {
    add(chunk: Uint8Array) {
      last = (last + new TextDecoder("latin1").decode(chunk.subarray(-4))).slice(-4);
    },
    isBetween: () => /(?:\n\n|\r\n\r\n|\r\r)$/.test(last),
  };
}
