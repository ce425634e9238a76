import { isEventStream, pullStream } from "@sluice/core";
import { sleep } from "@sluice/core/async";
import { hasEvents, markPaced } from "./bound-events.ts";

/** Longest wait for what an answer will be: some handlers take their time before they say anything. */
const maxHoldMs = 10_000;

/**
 * Holds the head of an answer in events back until its first message, or until `decided` resolves, at most 10 s: the SDK gives
 * the head before its handler has run. An answer of another kind is given back as it is.
 */
export async function holdHead(response: Response, decided: Promise<void>): Promise<Response> {
  const { body, status, headers } = response;
  if (!body || !isEventStream(headers)) return response;
  const reader = body.getReader();
  const decoder = new TextDecoder();
  const kept: Read[] = [];
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
      kept.push(read);
      text += decoder.decode(read.value, { stream: true });
      if (read.done || hasMessage(text)) break;
    }
  } finally {
    decision.abort();
  }
  // a broken stream is seen by its reader
  pending?.catch(() => {});
  async function next(): Promise<Uint8Array | undefined> {
    const read = kept.shift() ?? pending ?? reader.read();
    if (read === pending) pending = undefined;
    return (await read).value;
  }
  const rest = pullStream(next, (reason) => reader.cancel(reason).catch(() => {}));
  const held = new Response(rest, { status, headers });
  return hasEvents(response) ? held : markPaced(held);
}

type Read = Awaited<ReturnType<ReadableStreamDefaultReader<Uint8Array>["read"]>>;

/** Comments and events without data, such as those that only have an id, tell nothing. */
function hasMessage(text: string): boolean {
  return /^data: ?\S/m.test(text);
}
