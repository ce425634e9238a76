import { SluiceError } from "@sluice/core";
import type { ObjectInfo, StepOptions, StepWriter } from "../contract/backend.ts";
import { createStepWriter, type StepDriver } from "../plugin/step-writer.ts";

/** An object that is written in steps, in memory. */
interface KeptSteps {
  readonly key: string;
  readonly contentType: string | undefined;
  /** Each writer takes the place of the one before. */
  chunks: readonly Uint8Array[];
  bytes: number;
}

/** Makes an object of these chunks. */
type PublishChunks = (
  chunks: readonly Uint8Array[],
  bytes: number,
  contentType: string | undefined,
) => ObjectInfo;

/** Creates the writers of one backend. Their bytes end with it. */
export function createMemorySteps(): (
  key: string,
  step: { readonly operation: string; readonly options: StepOptions },
  publish: PublishChunks,
) => StepWriter {
  const unfinished = new Map<string, KeptSteps>();

  return (key, { operation, options }, publish) => {
    const id = options.id ?? crypto.randomUUID();
    if (!/^[0-9a-f-]{36}$/.test(id))
      throw new SluiceError("invalid_argument", `${operation}: the id is not one of this store`);
    if (options.id === undefined)
      unfinished.set(id, { key, contentType: options.contentType, chunks: [], bytes: 0 });
    const object = unfinished.get(id);
    if (object?.key !== key)
      throw new SluiceError("not_found", `${operation}: nothing of it is kept`);

    let { bytes } = object;
    const chunks = [...object.chunks];
    const ownBytes = bytes;
    const ensureUnchanged = (): void => {
      if (unfinished.get(id) !== object || object.bytes !== ownBytes)
        throw new SluiceError("precondition_failed", `${operation}: another writer resumed it`);
    };
    const driver: StepDriver = {
      async append(chunk) {
        chunks.push(chunk);
        bytes += chunk.byteLength;
      },
      async keep() {
        if (bytes === ownBytes) return { offset: ownBytes, rest: new Uint8Array() };
        ensureUnchanged();
        Object.assign(object, { chunks, bytes });
        return { offset: bytes, rest: new Uint8Array() };
      },
      async publish() {
        ensureUnchanged();
        unfinished.delete(id);
        return publish(chunks, bytes, object.contentType);
      },
      async discard() {
        unfinished.delete(id);
      },
      async release() {},
    };
    const { signal } = options;
    return createStepWriter(() => driver, { operation, id, offset: ownBytes, signal });
  };
}
