import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import type {
  ListPage,
  ObjectInfo,
  ObjectWriter,
  OpenedObject,
  Overrides,
  StepWriter,
} from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";
import type { Service } from "../reference-service.ts";

/** A backend that is broken on purpose, to prove that its rule can fail. */
export interface Mutant {
  /** Its fault. */
  readonly flaw: string;
  /** Rules that see the flaw as well, because they stand on the one that is broken. */
  readonly also?: readonly string[];
  /** Its operations in place of the right ones; called once for every backend. */
  breaks(service: Service): Overrides;
}

/** Mutants by the id of the rule that catches them. */
export type Mutants = Readonly<Record<string, Mutant>>;

/** Tells something else about an object when it is described. */
export function describes(change: (info: ObjectInfo, key: string) => ObjectInfo): Overrides {
  return {
    describe: (describe) => async (key, options) => change(await describe(key, options), key),
  };
}

/** Gives something else than was opened. */
export function opens(
  change: (opened: OpenedObject, key: string) => OpenedObject | Promise<OpenedObject>,
): Overrides {
  return { open: (open) => async (key, options) => change(await open(key, options), key) };
}

/** Asks for another key, in describe and open alike. */
export function renames(change: (key: string) => string): Overrides {
  return {
    describe: (describe) => (key, options) => describe(change(key), options),
    open: (open) => (key, options) => open(change(key), options),
  };
}

/** Changes the pages of a listing. */
export function lists(change: (page: ListPage, prefix: string) => ListPage): Overrides {
  return {
    list: (list) => async (options) => change(await list(options), options?.prefix ?? ""),
  };
}

/** Turns a failure of describe and open into another one, or into a result. */
export function fails(
  change: (error: Error & { code?: string }, key: string) => unknown,
): Overrides {
  return {
    describe: (describe) => (key, options) =>
      describe(key, options).catch((error: Error) => Promise.reject(change(error, key))),
    open: (open) => (key, options) =>
      open(key, options).catch((error: Error) => Promise.reject(change(error, key))),
  };
}

/** One code reported as another. */
export function misreports(from: SluiceErrorCode, to: SluiceErrorCode): Overrides {
  return fails((error) =>
    error.code === from ? new SluiceError(to, error.message, { cause: error.cause }) : error,
  );
}

/** Changes a writer when it is made. */
export function writes(
  change: (writer: ObjectWriter, key: string) => Partial<ObjectWriter>,
): Overrides {
  return {
    write: (write) => async (key, options) => {
      const writer = await write(key, options);
      return {
        write: (chunk) => writer.write(chunk),
        commit: () => writer.commit(),
        abort: (reason) => writer.abort(reason),
        [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
        ...change(writer, key),
      };
    },
  };
}

/** Changes the writers of the steps of one object when they are made. */
export function writesInSteps(
  changed: string,
  change: (writer: StepWriter) => Partial<StepWriter>,
): Overrides {
  return {
    writeInSteps: (writeInSteps) => async (key, options) => {
      const writer = await writeInSteps(key, options);
      return key === changed ? { ...writer, ...change(writer) } : writer;
    },
  };
}

/** The same object with its chunks changed; dropping one is `undefined`. */
export function mapChunks(
  opened: OpenedObject,
  change: (chunk: Uint8Array, position: number) => Uint8Array | undefined,
): OpenedObject {
  const reader = opened.body.getReader();
  let position = 0;
  const body = createBody({
    async next() {
      for (;;) {
        const { value } = await reader.read();
        if (value === undefined) return undefined;
        const changed = change(value, position);
        position += value.byteLength;
        if (changed !== undefined) return changed;
      }
    },
    release: (reason) => reader.cancel(reason),
  });
  return { ...opened, body };
}

/** The same object with all its bytes changed at once. */
export function mapBytes(
  opened: OpenedObject,
  change: (bytes: Uint8Array) => Uint8Array,
): OpenedObject {
  const reader = opened.body.getReader();
  let ended = false;
  const body = createBody({
    async next() {
      if (ended) return undefined;
      ended = true;
      const chunks: Uint8Array[] = [];
      for (let read = await reader.read(); !read.done; read = await reader.read())
        chunks.push(read.value);
      return change(Buffer.concat(chunks));
    },
    release: (reason) => reader.cancel(reason),
  });
  return { ...opened, body };
}

/** Leaves the last byte out of one particular range. */
export function shortens(isThis: (start: number, end: number, size: number) => boolean): Overrides {
  return opens((opened) => {
    const { info, range } = opened;
    const isShort = range !== undefined && isThis(range.start, range.end, info.size ?? 0);
    return isShort ? mapBytes(opened, (bytes) => bytes.subarray(0, -1)) : opened;
  });
}
