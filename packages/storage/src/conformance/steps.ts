import assert from "node:assert/strict";
import type { ObjectInfo, StepEnd, StepOptions, StepWriter } from "../contract/backend.ts";
import { oneMiB } from "./expect.ts";
import type { Equipped } from "./rule.ts";
import { showFailure } from "./record-calls.ts";

export type StepFixture = Equipped<"backend.writeInSteps">;
export type StepBackend = StepFixture["backend"];

/** An object in steps, as its caller keeps it between two of them. */
export interface ObjectInSteps {
  readonly id: string;
  readonly end: StepEnd;
}

/** Begins a step, with the rest of the one before written first. */
export async function openStep(
  backend: StepBackend,
  key: string,
  before?: ObjectInSteps,
  options?: StepOptions,
): Promise<StepWriter> {
  const writer = await backend.writeInSteps(
    key,
    before === undefined ? options : { ...options, id: before.id },
  );
  if (before && before.end.rest.byteLength > 0) await writer.write(before.end.rest.slice());
  return writer;
}

/** Writes one step and suspends it. */
export async function step(
  backend: StepBackend,
  key: string,
  bytes: Uint8Array,
  before?: ObjectInSteps,
): Promise<ObjectInSteps> {
  const writer = await openStep(backend, key, before);
  await writer.write(bytes.slice());
  return { id: writer.id, end: await writer.suspend() };
}

/** Ends what was begun. */
export async function commit(
  backend: StepBackend,
  key: string,
  before: ObjectInSteps,
): Promise<ObjectInfo> {
  return (await openStep(backend, key, before)).commit();
}

/** Bytes of all steps. */
export function lengthOf({ end }: ObjectInSteps): number {
  return end.offset + end.rest.byteLength;
}

/** Bytes of one part of the service. */
export function partOf({ traits }: Pick<StepFixture, "traits">): number {
  return traits?.partBytes ?? oneMiB;
}

/** Nothing can be resumed: the id is of nothing, or of an object without a byte. */
export async function expectFinished(backend: StepBackend, key: string, id: string): Promise<void> {
  let writer: StepWriter;
  try {
    writer = await backend.writeInSteps(key, { id });
  } catch (error) {
    assert.equal(showFailure(error), "not_found", "resuming a finished object");
    return;
  }
  await writer.abort();
  assert.equal(writer.offset, 0, "bytes of a finished object are kept");
}
