/**
 * Makes a stream that asks `next` for a chunk when its reader wants one; `undefined` ends it. `end` is called once,
 * however the stream ends: with the reason if it failed or was cancelled.
 */
export function pullStream(
  next: () => Promise<Uint8Array | undefined>,
  end: (reason?: unknown) => unknown,
): ReadableStream<Uint8Array> {
  return new ReadableStream<Uint8Array>(
    {
      async pull(controller) {
        try {
          const chunk = await next();
          if (chunk) return controller.enqueue(chunk);
        } catch (error) {
          end(error);
          throw error;
        }
        end();
        controller.close();
      },
      async cancel(reason) {
        await end(reason);
      },
    },
    { highWaterMark: 0 },
  );
}
