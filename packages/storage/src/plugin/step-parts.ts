import { SluiceError } from "@sluice/core";
import type { ObjectInfo } from "../contract/backend.ts";
import type { StepDriver } from "./step-writer.ts";
import type { WriteDriver } from "./writer.ts";

/** The calls of a service that takes an object in parts. {@link createPartDriver} calls one method at a time. */
export interface PartCalls {
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
  steps: PartCalls,
  { operation, size, partBytes: least, maxParts }: PartOptions,
): WriteDriver {
  const partBytes = Math.max(least, Math.ceil((size ?? 0) / maxParts));
  const bufferBytes = Math.min(partBytes, size ?? partBytes);
  let filling: Uint8Array | undefined;
  let resting: Uint8Array | undefined;
  let filledBytes = 0;
  let sentParts = 0;
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
    if (sentParts + 1 >= maxParts)
      throw new SluiceError(
        "too_large",
        `${operation}: it has more than ${maxParts} parts of ${partBytes} bytes; declare the size`,
      );
    sending = steps.send(take(), sentParts++);
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
      return steps.publish(take(), sentParts, written);
    },
    async release() {
      await sending.catch(() => {});
      filling = undefined;
      resting = undefined;
      await steps.release();
    },
  };
}

/**
 * Where the parts of an object begin and end. It is the same in every process, so two writers that send the same part
 * send the same bytes, and one that comes late does no harm.
 */
export interface PartGrid {
  /** Bytes of part `number`, from 0. */
  sizeOf(number: number): number;
  /** Bytes before part `number`. */
  startOf(number: number): number;
  readonly maxParts: number;
}

/** Makes a grid whose parts are `partBytes` long at first, and double in length after each tenth of `maxParts`. */
export function toPartGrid(partBytes: number, maxParts: number): PartGrid {
  const tenth = Math.ceil(maxParts / 10);
  const sizeOf = (number: number): number => partBytes * 2 ** Math.floor(number / tenth);
  return {
    sizeOf,
    startOf(number) {
      const doublings = Math.floor(number / tenth);
      const before = partBytes * tenth * (2 ** doublings - 1);
      return before + (number % tenth) * sizeOf(number);
    },
    maxParts,
  };
}

/** The calls of a service that takes an object in parts. {@link createStepPartDriver} calls one method at a time. */
export interface StepPartCalls {
  /** Keeps part `number`, from 0. Its bytes do not change until this settles. */
  send(number: number, part: Uint8Array): Promise<void>;
  /** Makes the object of the first `count` parts and a last one, which may be empty. */
  publish(last: Uint8Array, count: number): Promise<ObjectInfo>;
  /** See {@link StepDriver.discard}. */
  discard(): Promise<void>;
}

/** Settings of {@link createStepPartDriver}. */
export interface StepPartOptions {
  /** Start of messages. */
  readonly operation: string;
  readonly grid: PartGrid;
  /** Parts that earlier steps have kept. */
  readonly count: number;
}

/**
 * Creates the driver of a step that gathers parts, and gathers the next while one is on its way: two parts are all
 * the memory it takes. Bytes that do not fill a part are the rest of the step.
 */
export function createStepPartDriver(
  parts: StepPartCalls,
  { operation, grid, count: kept }: StepPartOptions,
): StepDriver {
  let filling: Uint8Array | undefined;
  let resting: Uint8Array | undefined;
  let filledBytes = 0;
  let count = kept;
  let sending: Promise<void> = Promise.resolve();

  const sendPart = async (part: Uint8Array): Promise<void> => {
    await sending;
    // the last part also takes a place
    if (count + 1 >= grid.maxParts)
      throw new SluiceError("too_large", `${operation}: it has more than ${grid.maxParts} parts`);
    sending = parts.send(count, part);
    // the next call that waits for it throws the error
    sending.catch(() => {});
    count += 1;
    [filling, resting] = [resting, filling];
    filledBytes = 0;
    if (filling && filling.byteLength !== grid.sizeOf(count)) filling = undefined;
  };

  return {
    async append(chunk) {
      for (let at = 0; at < chunk.byteLength;) {
        filling ??= new Uint8Array(grid.sizeOf(count));
        const piece = chunk.subarray(at, at + filling.byteLength - filledBytes);
        filling.set(piece, filledBytes);
        filledBytes += piece.byteLength;
        at += piece.byteLength;
        if (filledBytes === filling.byteLength) await sendPart(filling);
      }
    },
    async keep() {
      await sending;
      const rest = filling?.slice(0, filledBytes) ?? new Uint8Array();
      return { offset: grid.startOf(count), rest };
    },
    async publish() {
      await sending;
      return parts.publish(filling?.subarray(0, filledBytes) ?? new Uint8Array(), count);
    },
    discard: () => parts.discard(),
    async release() {
      await sending.catch(() => {});
      filling = undefined;
      resting = undefined;
    },
  };
}
