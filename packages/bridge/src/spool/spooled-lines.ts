import { abortable } from "@sluice/core/async";
import { createJsonSpooler } from "./json-spooler.ts";
import type { SpoolLimits } from "./message-spooler.ts";

/**
 * The same for newline-delimited JSON, such as the stdout of a child process: gives one line at a time, with its end.
 * Rejects with the error of the spooler or of the source, or with the signal's reason.
 */
export async function* spooledLines(
  source: AsyncIterable<Uint8Array>,
  options: SpoolLimits,
): AsyncGenerator<Uint8Array, void, undefined> {
  const spooler = createJsonSpooler({ ...options, framing: "lines" });
  const chunks = source[Symbol.asyncIterator]();
  try {
    for (;;) {
      const { done, value } = await abortable(chunks.next(), options.signal);
      if (done) break;
      yield* await spooler.write(value);
    }
    yield* await spooler.end();
  } finally {
    await spooler.abort();
    // a source that waits for its next chunk ends by itself
    void chunks.return?.().catch(() => {});
  }
}
