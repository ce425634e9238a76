import { isEventStream } from "@sluice/core";
import { onAbort } from "@sluice/core/async";

/**
 * A response that calls `onEnd` once when its body was read, cancelled or broken; at once when it is no stream of events.
 * A stream of events ends when `signal` aborts.
 */
export function watchEnd(response: Response, onEnd: () => void, signal?: AbortSignal): Response {
  const { body, headers, status, statusText } = response;
  if (!body || !isEventStream(headers)) {
    onEnd();
    return response;
  }
  const reader = body.getReader();
  const stop = (): void => void reader.cancel().catch(() => {});
  onAbort(signal, stop);
  const watched = new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const { done, value } = await reader.read();
          if (!done) return controller.enqueue(value);
          onEnd();
          controller.close();
        } catch (error) {
          onEnd();
          controller.error(error);
        }
      },
      cancel(reason) {
        onEnd();
        return reader.cancel(reason);
      },
    },
    { highWaterMark: 0 },
  );
  return new Response(watched, { status, statusText, headers });
}
