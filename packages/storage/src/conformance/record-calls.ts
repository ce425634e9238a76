import assert from "node:assert/strict";
import { AsyncLocalStorage } from "node:async_hooks";
import { inspect } from "node:util";
import type { ObjectWriter, StepWriter, StorageBackend } from "../contract/backend.ts";
import { wrapBackend, wrapStepWriter } from "../wrappers/wrap.ts";

/** The last call of a recorded backend in some work, as a message names it. */
export interface LastCall {
  text?: string;
}

const lastCalls = new AsyncLocalStorage<LastCall>();

/** Runs the work and keeps its last call in `last`. */
export function withLastCall<T>(last: LastCall, work: () => T): T {
  return lastCalls.run(last, work);
}

/** The backend with calls that messages can name. A call that throws fails its rule: it has to reject. */
export function recordCalls(backend: StorageBackend): StorageBackend {
  return wrapBackend(backend, {
    describe: (describe) => recorded("describe", describe),
    open: (open) => recorded("open", open),
    list: (list) => recorded("list", list),
    presign: (presign) => recorded("presign", presign),
    presignOrigins: (presignOrigins) => recorded("presignOrigins", presignOrigins),
    remove: (remove) => recorded("remove", remove),
    close: (close) => recorded("close", close),
    write: (write) => {
      const start = recorded("write", write);
      return async (...args) => recordWriter(await start(...args), showCall("write", args));
    },
    writeInSteps: (writeInSteps) => {
      const start = recorded("writeInSteps", writeInSteps);
      return async (...args) => recordSteps(await start(...args), showCall("writeInSteps", args));
    },
  });
}

function recordWriter(writer: ObjectWriter, made: string): ObjectWriter {
  return {
    write: recorded(`${made}.write`, (chunk) => writer.write(chunk)),
    commit: recorded(`${made}.commit`, () => writer.commit()),
    abort: recorded(`${made}.abort`, (reason) => writer.abort(reason)),
    [Symbol.asyncDispose]: () => writer[Symbol.asyncDispose](),
  };
}

function recordSteps(writer: StepWriter, made: string): StepWriter {
  return {
    ...wrapStepWriter(writer, {
      write: recorded(`${made}.write`, (chunk) => writer.write(chunk)),
      suspend: recorded(`${made}.suspend`, () => writer.suspend()),
      commit: recorded(`${made}.commit`, () => writer.commit()),
    }),
    abort: recorded(`${made}.abort`, () => writer.abort()),
  };
}

function recorded<Args extends unknown[], T>(
  name: string,
  call: (...args: Args) => Promise<T>,
): (...args: Args) => Promise<T> {
  return (...args) => {
    const text = showCall(name, args);
    const last = lastCalls.getStore();
    if (last) last.text = text;
    try {
      return call(...args);
    } catch (error) {
      const message = `${text} threw instead of rejecting: ${String(error)}`;
      throw new assert.AssertionError({ message });
    }
  };
}

const maxShown = 500;
const maxKeyShown = 60;

/** A value in one line, and no more of it than a reader takes in. */
export function show(value: unknown): string {
  const text = inspect(value, { breakLength: Infinity, maxArrayLength: 20, maxStringLength: 200 });
  return text.length > maxShown ? `${text.slice(0, maxShown)}…` : text;
}

/** A call as it is written: `open("a.txt", { ifMatch: 'x' })`. */
function showCall(name: string, args: readonly unknown[]): string {
  return `${name}(${args.map((arg) => showArgument(arg)).join(", ")})`;
}

/** The rejection of work: its code, or the error if it has none. */
export function showFailure(error: unknown): string {
  const { code } = Object(error) as { code?: unknown };
  return typeof code === "string" ? code : `an error without a code (${String(error)})`;
}

function showArgument(value: unknown): string {
  if (value instanceof Uint8Array) return `${value.byteLength} bytes`;
  if (typeof value !== "string") return show(value);
  if (value.length <= maxKeyShown) return JSON.stringify(value);
  return `${JSON.stringify(`${value.slice(0, maxKeyShown)}…`)} of ${value.length} characters`;
}
