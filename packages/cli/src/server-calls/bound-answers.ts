import { SluiceError } from "@sluice/core";

/** Most bytes of a JSON answer, of a refusal, or of one event: as much as of one WebSocket message. */
const maxMessageBytes = 16 * 2 ** 20;

const lineFeed = 0x0a;
const carriageReturn = 0x0d;

/**
 * An answer whose body ends with `protocol` where one message of it has more than 16 MiB: the SDK
 * collects messages without a bound. A blank line ends an event (HTML section 9.2.6).
 */
export function boundAnswers(answer: Response): Response {
  const { body, status, statusText, headers } = answer;
  if (!body) return answer;
  const isEvents = /^text\/event-stream\b/i.test(headers.get("content-type") ?? "");
  let bytes = 0;
  let previous = 0;
  let isBlank = true;

  function countEvents(chunk: Uint8Array): void {
    for (const byte of chunk) {
      bytes += 1;
      if (bytes > maxMessageBytes) return;
      const isEnd = byte === lineFeed || byte === carriageReturn;
      // the second half of a line end
      const isHalf = byte === lineFeed && previous === carriageReturn;
      if (isEnd && !isHalf && isBlank) bytes = 0;
      if (!isHalf) isBlank = isEnd;
      previous = byte;
    }
  }

  const bounded = new TransformStream<Uint8Array, Uint8Array>({
    transform(chunk, controller) {
      if (isEvents) countEvents(chunk);
      else bytes += chunk.length;
      if (bytes > maxMessageBytes)
        throw new SluiceError(
          "protocol",
          `client: the server's answer has more than ${maxMessageBytes} bytes`,
        );
      controller.enqueue(chunk);
    },
  });
  return new Response(body.pipeThrough(bounded), { status, statusText, headers });
}
