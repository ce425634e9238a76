import { SluiceError } from "@sluice/core";
import { onAbort } from "@sluice/core/async";
import type { RequestBody } from "./plain-route.ts";

/** The body of a web request; absent when it has none. */
export function webBody({ body }: Request): RequestBody | undefined {
  if (!body) return undefined;
  return {
    async read(take, signal) {
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      const stop = (): void => void reader.cancel(signal.reason).catch(() => {});
      const unlisten = onAbort(signal, stop);
      try {
        for (;;) {
          const { done, value } = await reader.read().catch(rethrowInterrupted);
          signal.throwIfAborted();
          if (done) return;
          const wait = take(value);
          if (wait) await wait;
        }
      } catch (error) {
        reader.cancel(error).catch(() => {});
        signal.throwIfAborted();
        throw error;
      } finally {
        unlisten();
      }
    },
  };
}

function rethrowInterrupted(cause: unknown): never {
  throw new SluiceError("interrupted", "http: the body ended before its end", { cause });
}
