import { AsyncLocalStorage } from "node:async_hooks";
import { SluiceError, type FetchLike } from "@sluice/core";
import { isEventStream } from "@sluice/core/internal";
import { maxResponseContainers } from "../spool/scan/string-scanner.ts";
import { smallerAdvice } from "../messages/limits.ts";
import type { Flow } from "./upstream.ts";

/** A message that is being sent, and what comes for it. */
export interface SentMessage {
  /** A stream of events answers it. */
  hasStream: boolean;
  /** What is wrong with an event that could not be read. */
  unread?: string | undefined;
  /** What it was answered with in place of what the server sent. */
  fault?: string;
  /** Since when the rest of its stream cannot be had, on the clock of `performance.now()`. */
  awaySince?: number | undefined;
  /** Answers it with a fault; nothing more of its stream is asked for. */
  readonly fail?: (fault: string) => void;
}

interface MessageBounds {
  readonly maxBytes: number;
  /** Long texts go to files. */
  readonly hasSpool: boolean;
}

/** The message that a `fetch` is for. */
export const sentMessage: AsyncLocalStorage<SentMessage> = new AsyncLocalStorage();

/**
 * A `fetch` whose answers hold no message larger than `maxBytes`, or of more arrays and objects than are parsed: neither
 * a body of JSON nor one event of a stream. It reads on only while `flow` lets it, so that what waits for a slow host
 * stays with the server.
 */
export function boundedFetch(
  fetch: FetchLike,
  { maxBytes, hasSpool }: MessageBounds,
  flow: Flow,
): FetchLike {
  return async (url, init) => {
    const sendState = sentMessage.getStore();
    // the SDK opens a stream again that we broke off
    if (sendState?.fault !== undefined) throw new SluiceError("protocol", sendState.fault);
    const response = await fetch(url, init);
    const isStream = isEventStream(response.headers);
    if (sendState && isStream) sendState.hasStream = true;
    if (!response.body || isSmall(response.headers, maxBytes)) return response;
    const check = createBoundCheck({ maxBytes, hasSpool }, isStream);
    const bounded = response.body.pipeThrough(
      new TransformStream<Uint8Array, Uint8Array>({
        async transform(chunk, controller) {
          const fault = check(chunk);
          if (fault) {
            if (isStream) sendState?.fail?.(fault.message);
            throw fault;
          }
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

const [lf, cr, quote, backslash, openBracket, openBrace] = [0x0a, 0x0d, 0x22, 0x5c, 0x5b, 0x7b];

/**
 * Makes the check of one body, which gives what is wrong with it so far. An event is counted since the last blank line,
 * which ends one. An exact count costs less than the parse that follows.
 */
function createBoundCheck(
  { maxBytes, hasSpool }: MessageBounds,
  isStream: boolean,
): (chunk: Uint8Array) => SluiceError | undefined {
  let length = 0;
  let containers = 0;
  let isLineEmpty = true;
  let isInString = false;
  let isEscaped = false;
  return (chunk) => {
    for (const byte of chunk) {
      length++;
      if (byte === lf || byte === cr) {
        if (isLineEmpty && isStream) length = containers = 0;
        isLineEmpty = true;
        // no string of JSON goes on in the next line, and a field of an event may have a single quote
        isInString = isEscaped = false;
        continue;
      }
      isLineEmpty = false;
      if (isEscaped) isEscaped = false;
      else if (byte === quote) isInString = !isInString;
      else if (isInString) isEscaped = byte === backslash;
      else if (byte === openBracket || byte === openBrace) containers++;
      if (length > maxBytes || containers > maxResponseContainers)
        return tooLarge(
          length > maxBytes
            ? `${maxBytes / 2 ** 20} MiB`
            : `${maxResponseContainers} arrays and objects`,
          hasSpool,
        );
    }
    return undefined;
  };
}

function tooLarge(bound: string, hasSpool: boolean): SluiceError {
  const message = `bridge: an answer has more than ${bound}; ${smallerAdvice(hasSpool)}`;
  return new SluiceError("too_large", message);
}
