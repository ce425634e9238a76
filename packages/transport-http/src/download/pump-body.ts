import { SluiceError } from "@sluice/core";
import type { Outflow } from "./outflow.ts";

/**
 * Sends a stream and ends the response, with at most two chunks under way; calls `begin` once, before the first chunk or
 * the end. Rejects when the source breaks or has not the `bytes` that it promised; a reader that goes away cancels it
 * and shows in `outflow.isBroken`.
 */
export async function pumpBody(
  body: ReadableStream<Uint8Array>,
  outflow: Outflow,
  { bytes, begin }: { readonly bytes?: number | undefined; readonly begin: () => void },
): Promise<void> {
  const reader = body.getReader();
  let received = 0;
  const stop = (): void => void reader.cancel().catch(() => {});
  outflow.onBroken(stop);
  try {
    for (;;) {
      const { done, value } = await reader.read();
      if (outflow.isBroken) return;
      if (done) break;
      if (received === 0) begin();
      received += value.byteLength;
      if (bytes !== undefined && received > bytes)
        throw new SluiceError(
          "corrupt",
          `http: the source gave more than its promised ${bytes} bytes`,
        );
      outflow.write(value, () => {});
      await outflow.fewerThan(2);
    }
    if (bytes !== undefined && received < bytes)
      throw new SluiceError(
        "interrupted",
        `http: the source ended at ${received} of ${bytes} bytes`,
      );
    if (received === 0) begin();
    await outflow.end();
  } finally {
    stop();
  }
}
