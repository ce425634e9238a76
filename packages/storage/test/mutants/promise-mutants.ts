import { SluiceError } from "@sluice/core";
import type {
  ObjectInfo,
  ObjectWriter,
  Overrides,
  StepWriter,
  WriteOptions,
} from "@sluice/storage";
import type { Service } from "../reference-service.ts";
import type { Mutant } from "./mutant.ts";

/**
 * Broken backends: the sentence of the contract that they break, however a rule may look at it → the rule that catches
 * them → the flaw.
 */
export type PromiseMutants = Readonly<
  Record<string, Record<string, Record<string, Mutant["breaks"]>>>
>;

/** An object before it is replaced. */
export interface Replaced {
  readonly info: ObjectInfo;
  readonly bytes: Uint8Array;
}

/** An object of the store, or `undefined` if there is none. */
export async function peek({ store }: Service, key: string): Promise<Replaced | undefined> {
  const opened = await store.open(key).catch(() => undefined);
  if (opened === undefined) return undefined;
  const bytes = new Uint8Array(await new Response(opened.body).arrayBuffer());
  return { info: opened.info, bytes };
}

/** Leaves the end of a longer object behind the one that replaced it. */
export async function keepEnd(
  service: Service,
  old: Uint8Array,
  info: ObjectInfo,
): Promise<ObjectInfo> {
  const made = await peek(service, info.key);
  if (made === undefined || made.bytes.byteLength >= old.byteLength) return info;
  const tail = old.subarray(made.bytes.byteLength);
  return service.store.put(info.key, Buffer.concat([made.bytes, tail]));
}

/** Changes a writer of a key that has an object already. */
export function overwrites(
  service: Service,
  change: (
    writer: ObjectWriter,
    old: Replaced,
    options: WriteOptions,
  ) => Partial<ObjectWriter> | Promise<Partial<ObjectWriter>>,
): Overrides {
  return {
    write:
      (write) =>
      async (key, options = {}) => {
        const old = await peek(service, key);
        const writer = await write(key, options);
        return old === undefined ? writer : { ...writer, ...(await change(writer, old, options)) };
      },
  };
}

/** Changes the writer of a step of a key that has an object already. */
export function overwritesInSteps(
  service: Service,
  change: (writer: StepWriter, old: Replaced) => Partial<StepWriter>,
): Overrides {
  return {
    writeInSteps: (writeInSteps) => async (key, options) => {
      const old = await peek(service, key);
      const writer = await writeInSteps(key, options);
      return old === undefined ? writer : { ...writer, ...change(writer, old) };
    },
  };
}

/** Changes the bytes that a writer takes; `undefined` leaves a chunk out. The declared size counts what came. */
export function mapWritten(
  change: (chunk: Uint8Array, n: number) => Uint8Array | undefined,
): Overrides {
  return {
    write:
      (write) =>
      async (key, { size, ...options } = {}) => {
        const writer = await write(key, options);
        let chunks = 0;
        let came = 0;
        const ensureSize = async (isWrong: boolean): Promise<void> => {
          if (!isWrong) return;
          await writer.abort();
          throw new SluiceError("invalid_argument", "memory: write: another size was declared");
        };
        return {
          ...writer,
          async write(chunk) {
            came += chunk.byteLength;
            await ensureSize(size !== undefined && came > size);
            const bytes = change(chunk, chunks++);
            if (bytes !== undefined) await writer.write(bytes);
          },
          async commit() {
            await ensureSize(size !== undefined && came !== size);
            return writer.commit();
          },
        };
      },
  };
}

/** Changes the bytes that a step takes; `undefined` leaves a chunk out. */
export function mapSteps(
  change: (chunk: Uint8Array, writer: StepWriter) => Uint8Array | undefined,
): Overrides {
  return {
    writeInSteps: (writeInSteps) => async (key, options) => {
      const writer = await writeInSteps(key, options);
      return {
        ...writer,
        async write(chunk) {
          const bytes = change(chunk, writer);
          if (bytes !== undefined) await writer.write(bytes);
        },
      };
    },
  };
}
