import { SluiceError, type ByteFlow } from "@sluice/core";
import {
  createIdEventFiller,
  isMessageEvent,
  isResponse,
  readJson,
  systemClock,
} from "@sluice/core/internal";
import { createParser } from "eventsource-parser";
import { streamOf } from "../net/flow-stream.ts";
import { unanswered } from "../net/timeouts.ts";
import { answers, foreign, isNamelessError, tooLong, type AnsweredCall } from "./rpc-answer.ts";

/** Maximum bytes of an event stream that answers it: progress may come first. */
const maxEventBytes = 1024 * 1024;

/**
 * Passes on an event stream that answers a call, up to 1 MiB. If no response to the call can come any more, because
 * another one came, the stream is too long, it broke and no event had an id to resume from, or `answerMs` have passed,
 * `fail` gets the reason and the SDK an error response: otherwise it would wait for its own timeout.
 */
export function watchEvents(
  body: ByteFlow,
  call: AnsweredCall,
  fail: (error: SluiceError) => void,
): ReadableStream<Uint8Array> {
  const reader = streamOf(body).getReader();
  const decoder = new TextDecoder();
  const fill = createIdEventFiller();
  let bytes = 0;
  let isAnswered = false;
  let isForeign = false;
  let mayGoOn = false;
  let expired: SluiceError | undefined;
  const stopTimer = systemClock.schedule(() => {
    expired = unanswered(`${call.what}: the server`);
    reader.cancel(expired).catch(() => {});
  }, call.answerMs);
  const parser = createParser({
    onEvent({ id, event, data }) {
      if (id !== undefined && id !== "") mayGoOn = true;
      if (!isMessageEvent({ event })) return;
      const message = readJson(data).value;
      if (!isResponse(message) && !isNamelessError(message)) return;
      if (!answers(message, call.id)) isForeign = true;
      else {
        isAnswered = true;
        stopTimer();
      }
    },
  });

  function end(controller: ReadableStreamDefaultController<Uint8Array>, error: SluiceError): void {
    stopTimer();
    reader.cancel().catch(() => {});
    fail(error);
    controller.enqueue(errorEvent(call, error));
    controller.close();
  }

  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        let value: Uint8Array | undefined;
        try {
          ({ value } = await reader.read());
        } catch (error) {
          if (!isAnswered && !mayGoOn && SluiceError.is(error)) return end(controller, error);
          stopTimer();
          throw error;
        }
        if (expired) return end(controller, expired);
        if (!value && !isAnswered && !mayGoOn) return end(controller, endedEarly(call));
        if (!value) {
          stopTimer();
          return controller.close();
        }
        bytes += value.length;
        if (bytes > maxEventBytes) return end(controller, tooLong(call.what, maxEventBytes));
        const filledChunk = fill(value);
        parser.feed(decoder.decode(filledChunk, { stream: true }));
        if (isForeign && !isAnswered) return end(controller, foreign(call));
        return controller.enqueue(filledChunk);
      },
      cancel(reason) {
        stopTimer();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

function errorEvent({ id }: AnsweredCall, { code, message }: SluiceError): Uint8Array {
  const error = { code: CONNECTION_CLOSED, message, data: { reason: code } };
  // blank lines first end an event that was cut
  return new TextEncoder().encode(`\n\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, error })}\n\n`);
}

/** Number by which SDKs report, on their own side, a lost connection. */
const CONNECTION_CLOSED = -32000;

function endedEarly({ what }: AnsweredCall): SluiceError {
  return new SluiceError(
    "interrupted",
    `client: ${what}: the server ended its event stream without a response`,
  );
}
