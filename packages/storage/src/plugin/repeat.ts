import { SluiceError } from "@sluice/core";
import type { Repeat, WriteOptions } from "../contract/backend.ts";

const once: Repeat = (send) => send();

/** How the requests of one writer are sent: as `options.repeat` says, or once. `ended` ends a pause between two tries. */
export function repeaterOf(
  { repeat = once }: Pick<WriteOptions, "repeat">,
  ended?: AbortSignal,
): Repeat {
  return (send, signal = ended) => repeat(send, signal);
}

/**
 * Makes an object. If the response to the first try was lost, the object it made causes the second try to be refused.
 * So after a lost response, a refusal is resolved by `find`: it gives the object if this writer made it.
 */
export function publishOnce<T>(
  repeat: Repeat,
  publish: () => Promise<T>,
  find: () => Promise<T | undefined>,
): Promise<T> {
  let isInDoubt = false;
  return repeat(async () => {
    try {
      return await publish();
    } catch (error) {
      const result = isInDoubt && !isLost(error) ? await find() : undefined;
      if (result !== undefined) return result;
      isInDoubt ||= isLost(error);
      throw error;
    }
  });
}

/** True where a request may have worked whatever came back; a refusal is none of these. */
export function isLost(error: unknown): boolean {
  return SluiceError.is(error) && (error.code === "unavailable" || error.code === "timeout");
}
