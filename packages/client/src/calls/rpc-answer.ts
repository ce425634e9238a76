import { isResponse, keyOf, type LooseMessage, readJson, SluiceError } from "@sluice/core";
import { systemClock } from "@sluice/core/async";
import { createParser } from "eventsource-parser";
import type { ByteFlow } from "../net/exchange.ts";
import { streamOf } from "../net/flow-stream.ts";
import { readText } from "../net/read-text.ts";
import { unanswered } from "../net/timeouts.ts";

/** Most bytes of a JSON answer to `resources/stream`, and of the body of a refusal. */
const maxMessageBytes = 256 * 1024;
/** Most bytes of a stream of events that answers it: progress may come first. */
const maxEventBytes = 1024 * 1024;

/** The call that an answer is for. */
export interface AnsweredCall {
  /** What errors call it. */
  readonly what: string;
  /** Its JSON-RPC id. */
  readonly id: unknown;
  /** Milliseconds in which its response has to come. */
  readonly answerMs: number;
}

/** The text of a body. Throws `protocol` for one of more than 256 KiB. */
export async function readMessage(body: ByteFlow, { what }: AnsweredCall): Promise<string> {
  const { text, cut } = await readText(body, maxMessageBytes);
  if (cut === "limit") throw tooLong(what, maxMessageBytes);
  if (cut) throw cut;
  return text;
}

/** The first 256 KiB of a body as text, or what came of them. */
export async function readBeginning(body: ByteFlow): Promise<string> {
  const { text } = await readText(body, maxMessageBytes);
  return text;
}

/**
 * The JSON of an answer as the SDK can take it: with a response to the call in it. An error without an id is this
 * call's: its server could not read which one. Throws `protocol` for anything else.
 */
export function answerIn(text: string, call: AnsweredCall): string {
  const answer = readJson(text).value;
  const messages: unknown[] = Array.isArray(answer) ? answer : [answer];
  if (messages.some((message) => answers(message, call.id))) return text;
  const [message] = messages;
  if (isNamelessError(message)) return JSON.stringify({ ...message, id: call.id });
  throw message === undefined ? malformed(call) : foreign(call);
}

/**
 * Lets a stream of events through that answers a call, up to 1 MiB. Where no response to the call can come any more,
 * because another one came, the stream is too long, it broke off and no event had an id to go on from, or `answerMs` are
 * over, `fail` hears the reason and the SDK gets an error response: it would wait for its own timeout otherwise.
 */
export function watchEvents(
  body: ByteFlow,
  call: AnsweredCall,
  fail: (error: SluiceError) => void,
): ReadableStream<Uint8Array> {
  const reader = streamOf(body).getReader();
  const decoder = new TextDecoder();
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
    onEvent({ id, data }) {
      if (id !== undefined && id !== "") mayGoOn = true;
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
        parser.feed(decoder.decode(value, { stream: true }));
        if (isForeign && !isAnswered) return end(controller, foreign(call));
        return controller.enqueue(value);
      },
      cancel(reason) {
        stopTimer();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
}

function answers(message: unknown, id: unknown): boolean {
  return isResponse(message) && keyOf(message.id) === keyOf(id);
}

/** JSON-RPC 2.0 section 5: an error whose request could not be read has the id `null`. */
function isNamelessError(message: unknown): message is LooseMessage {
  const { id, error } = (message ?? {}) as { id?: unknown; error?: unknown };
  return (id === null || id === undefined) && typeof error === "object" && error !== null;
}

function errorEvent({ id }: AnsweredCall, { code, message }: SluiceError): Uint8Array {
  const error = { code: CONNECTION_CLOSED, message, data: { reason: code } };
  // blank lines first end an event that was cut
  return new TextEncoder().encode(`\n\ndata: ${JSON.stringify({ jsonrpc: "2.0", id, error })}\n\n`);
}

/** Number by which SDKs tell, on their own side, that a connection is gone. */
const CONNECTION_CLOSED = -32000;

function foreign({ what }: AnsweredCall): SluiceError {
  return new SluiceError("protocol", `client: ${what}: the server answered another request`);
}

function malformed({ what }: AnsweredCall): SluiceError {
  return new SluiceError("protocol", `client: ${what}: the server's answer is no JSON-RPC`);
}

function endedEarly({ what }: AnsweredCall): SluiceError {
  return new SluiceError(
    "interrupted",
    `client: ${what}: the server ended its stream of events without an answer`,
  );
}

function tooLong(what: string, bytes: number): SluiceError {
  return new SluiceError(
    "protocol",
    `client: ${what}: the server's answer has more than ${bytes} bytes`,
  );
}
