import { SluiceError } from "@sluice/core";
import type { RequestBody } from "./plain-route.ts";

/** The body of a web request; absent when it has none. */
export function webBody({ body }: Request): RequestBody | undefined {
  if (!body) return undefined;
  return {
    async read(take, signal) {
      const reader = (body as ReadableStream<Uint8Array>).getReader();
      const stop = (): void => void reader.cancel(signal.reason).catch(() => {});
      signal.addEventListener("abort", stop, { once: true });
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
        signal.removeEventListener("abort", stop);
      }
    },
  };
}

function rethrowInterrupted(cause: unknown): never {
  throw new SluiceError("interrupted", "http: the body ended before its end", { cause });
}
