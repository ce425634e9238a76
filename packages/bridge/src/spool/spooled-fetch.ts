import { parseMediaType, SluiceError, type FetchLike } from "@sluice/core";
import { createJsonSpooler, type JsonSpooler, type MessageFraming } from "./json-spooler.ts";
import type { SpoolLimits } from "./message-spooler.ts";

/**
 * Wraps the `fetch` of a client's transport: long strings of JSON and of server-sent events go to files before the SDK
 * parses the answer. Other bodies pass and may have `maxMessageBytes`. A body fails with the error of the spooler.
 */
export function spooledFetch(fetch: FetchLike, options: SpoolLimits): FetchLike {
  return async (url, init) => {
    const response = await fetch(url, init);
    if (!response.body) return response;
    const framing = framingOf(response.headers);
    const body = framing
      ? spooledBody(response.body, createJsonSpooler({ ...options, framing }))
      : boundedBody(response.body, options.maxMessageBytes ?? 32 * 2 ** 20);
    return answerWith(response, body);
  };
}

function framingOf(headers: Headers): MessageFraming | undefined {
  const type = parseMediaType(headers.get("content-type"))?.essence;
  if (type === "application/json") return "document";
  return type === "text/event-stream" ? "events" : undefined;
}

function spooledBody(
  source: ReadableStream<Uint8Array>,
  spooler: JsonSpooler,
): ReadableStream<Uint8Array> {
  const reader = source.getReader();
  let isCancelled = false;
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          for (;;) {
            const { done, value } = await reader.read();
            if (isCancelled) return;
            const given = done ? await spooler.end() : await spooler.write(value);
            if (isCancelled) return;
            for (const bytes of given) controller.enqueue(bytes);
            if (done) controller.close();
            if (done || given.length > 0) return;
          }
        } catch (error) {
          await spooler.abort();
          reader.cancel(error).catch(() => {});
          throw error;
        }
      },
      async cancel(reason) {
        isCancelled = true;
        await Promise.allSettled([reader.cancel(reason), spooler.abort()]);
      },
    },
    { highWaterMark: 0 },
  );
}

function boundedBody(
  source: ReadableStream<Uint8Array>,
  maxBytes: number,
): ReadableStream<Uint8Array> {
  let bytes = 0;
  return source.pipeThrough(
    new TransformStream<Uint8Array, Uint8Array>({
      transform(chunk, controller) {
        bytes += chunk.length;
        if (bytes > maxBytes)
          throw new SluiceError(
            "too_large",
            `bridge: the server sent a body of more than ${maxBytes} bytes that is no message`,
          );
        controller.enqueue(chunk);
      },
    }),
  );
}

/** The same answer with another body, whose length is not known. */
function answerWith(response: Response, body: ReadableStream<Uint8Array>): Response {
  const { status, statusText, url } = response;
  const headers = new Headers(response.headers);
  headers.delete("content-length");
  const answer = new Response(body, { status, statusText, headers });
  // a made one has none, and relative addresses are resolved against it
  Object.defineProperty(answer, "url", { value: url });
  return answer;
}
