import { isEventStream, SluiceError, type FetchLike } from "@sluice/core";
import type { Flow } from "./upstream.ts";

/**
 * A `fetch` whose answers hold no message larger than `maxBytes`: neither a body of JSON nor one event of a stream.
 * It reads on only while `flow` lets it, so that what waits for a slow host stays with the server.
 */
export function boundedFetch(fetch: FetchLike, maxBytes: number, flow: Flow): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
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

type Check = (chunk: Uint8Array) => void;

function bodyCheck(maxBytes: number): Check {
  let length = 0;
  return (chunk) => {
    length += chunk.length;
    if (length > maxBytes) throw tooLarge(maxBytes);
  };
}

const lf = 0x0a;
const cr = 0x0d;

/** Counts since the last blank line, which ends an event. */
function eventCheck(maxBytes: number): Check {
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
