import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "../contract/backend.ts";
import type { WriteDriver } from "./writer.ts";

/** The calls of a service that takes an object in parts. {@link createPartDriver} calls one method at a time. */
export interface PartSteps {
  /** Sends a part that others follow; `sent` went before it. Its bytes do not change until this settles. */
  send(part: Uint8Array, sent: number): Promise<void>;
  /** Makes the object of the parts that were `sent` and the last one, which is the whole object when none were. */
  publish(last: Uint8Array, sent: number, written: number): Promise<ObjectInfo>;
  /** See {@link WriteDriver.release}. */
  release(): Promise<void>;
}

/** Settings of {@link createPartDriver}. */
export interface PartOptions {
  /** Start of messages. */
  readonly operation: string;
  /** Bytes that were declared; `undefined` when none were. */
  readonly size?: number | undefined;
  /** Bytes of one part. A larger declared size than `maxParts` of them makes the parts larger. */
  readonly partBytes: number;
  /** Maximum parts of one object; more are `too_large`. */
  readonly maxParts: number;
}

/**
 * Creates the driver of a writer that gathers parts, and gathers the next while one is on its way: two parts are all
 * the memory it takes. A full part waits until there is more, since it may be the only one.
 */
export function createPartDriver(
  steps: PartSteps,
  { operation, size, partBytes: least, maxParts }: PartOptions,
): WriteDriver {
  const partBytes = Math.max(least, Math.ceil((size ?? 0) / maxParts));
  const bufferBytes = Math.min(partBytes, size ?? partBytes);
  let filling: Uint8Array | undefined;
  let resting: Uint8Array | undefined;
  let filledBytes = 0;
  let sentBytes = 0;
  let sending: Promise<void> = Promise.resolve();

  const take = (): Uint8Array => {
    const part = filling?.subarray(0, filledBytes) ?? new Uint8Array();
    [filling, resting] = [resting, filling];
    filledBytes = 0;
    return part;
  };
  const sendPart = async (): Promise<void> => {
    await sending;
    // the last part also takes a place
    if (sentBytes + 1 >= maxParts)
      throw new SluiceError(
        "too_large",
        `${operation}: it has more than ${maxParts} parts of ${partBytes} bytes; declare the size`,
      );
    sending = steps.send(take(), sentBytes++);
    // the next step that waits for it throws the error
    sending.catch(() => {});
  };

  return {
    async append(chunk) {
      for (let at = 0; at < chunk.byteLength;) {
        if (filledBytes === bufferBytes) await sendPart();
        filling ??= new Uint8Array(bufferBytes);
        const piece = chunk.subarray(at, at + bufferBytes - filledBytes);
        filling.set(piece, filledBytes);
        filledBytes += piece.byteLength;
        at += piece.byteLength;
      }
    },
    async publish(written) {
      await sending;
      return steps.publish(take(), sentBytes, written);
    },
    async release() {
      await sending.catch(() => {});
      filling = undefined;
      resting = undefined;
      await steps.release();
    },
  };
}
