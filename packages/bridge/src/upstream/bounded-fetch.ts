import { AsyncLocalStorage } from "node:async_hooks";
import { isEventStream, SluiceError, type FetchLike } from "@sluice/core";
import type { Flow } from "./upstream.ts";

/** The message that a `fetch` is for, and whether a stream of events answers it. */
export const sentMessage: AsyncLocalStorage<{ hasStream: boolean }> = new AsyncLocalStorage();

/**
 * A `fetch` whose answers hold no message larger than `maxBytes`: neither a body of JSON nor one event of a stream.
 * It reads on only while `flow` lets it, so that what waits for a slow host stays with the server.
 */
export function boundedFetch(fetch: FetchLike, maxBytes: number, flow: Flow): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    const sent = sentMessage.getStore();
    if (sent && isEventStream(response.headers)) sent.hasStream = true;
    if (!response.body || isSmall(response.headers, maxBytes)) return response;
    const check = isEventStream(response.headers) ? eventCheck(maxBytes) : bodyCheck(maxBytes);
    const bounded = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        async transform(chunk, controller) {
          check(chunk);
          await flow.ready();
          controller.enqueue(chunk);
        },
      }),
    );
    const { status, statusText, headers } = response;
    return new Response(bounded, { status, statusText, headers });
  };
}

/** A body whose length is known needs no count: most answers are small, and a stream more costs them time. */
function isSmall(headers: Headers, maxBytes: number): boolean {
  const length = headers.get("content-length");
  // the length of what is packed says nothing of what comes out
  if (length === null || headers.has("content-encoding")) return false;
  return !isEventStream(headers) && Number(length) <= Math.min(maxBytes, knownBytes);
}

/** Up to this length, a body is no reason to hold the server back. */
const knownBytes = 2 ** 16;

type BodyCheck = (chunk: Uint8Array) => void;

function bodyCheck(maxBytes: number): BodyCheck {
  let length = 0;
  return (chunk) => {
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
  };
}

const lf = 0x0a;
const cr = 0x0d;

/** Counts since the last blank line, which ends an event. */
function eventCheck(maxBytes: number): BodyCheck {
  let length = 0;
  let isLineEmpty = true;
  return (chunk) => {
    // most chunks are small: an exact count costs less than the parse that follows
    for (const byte of chunk) {
      length++;
      if (byte === lf || byte === cr) {
        if (isLineEmpty) length = 0;
        isLineEmpty = true;
      } else isLineEmpty = false;
      if (length > maxBytes) throw tooLarge(maxBytes);
    }
  };
}

function tooLarge(maxBytes: number): SluiceError {
  return new SluiceError("too_large", `bridge: an answer is larger than ${maxBytes / 2 ** 20} MiB`);
}
