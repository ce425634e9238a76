import { isEventStream, onAbort, pullStream } from "@sluice/core/internal";

/**
 * A response that calls `onEnd` once when its body was read, cancelled or broken; at once if it is not a stream of
 * events. A stream of events ends when `signal` aborts.
 */
export function watchEnd(response: Response, onEnd: () => void, signal?: AbortSignal): Response {
  const { body, headers, status, statusText } = response;
  if (!body || !isEventStream(headers)) {
    onEnd();
    return response;
  }
  const reader = body.getReader();
  const stop = (reason?: unknown): Promise<void> => reader.cancel(reason).catch(() => {});
  onAbort(signal, () => void stop());
  const watched = pullStream(
    async () => (await reader.read()).value,
    (reason) => {
      onEnd();
      return stop(reason);
    },
  );
  return new Response(watched, { status, statusText, headers });
}
