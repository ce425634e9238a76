import { SluiceError, type SluiceErrorCode } from "@sluice/core";
import {
  createMemoryBackend,
  type MemoryBackend,
  type Overrides,
  type StorageBackend,
  wrapBackend,
} from "@sluice/storage";
import { createBody } from "@sluice/storage/plugin";

/** A memory backend with some operations replaced, and what was called on it. */
export interface Scripted {
  readonly store: MemoryBackend;
  readonly backend: StorageBackend;
  readonly calls: string[];
}

export function createScripted(
  overrides: (store: MemoryBackend) => Overrides = () => ({}),
): Scripted {
  const store = createMemoryBackend();
  const calls: string[] = [];
  const broken = wrapBackend(store, overrides(store));
  const backend = wrapBackend(broken, {
    describe: (describe) => (key, options) => {
      calls.push(`describe ${key}`);
      return describe(key, options);
    },
    open: (open) => (key, options) => {
      const { start, end } = options?.range ?? {};
      calls.push(start === undefined ? `open ${key}` : `open ${key} [${start}, ${end})`);
      return open(key, options);
    },
    list: (list) => (options) => {
      calls.push("list");
      return list(options);
    },
  });
  return { store, backend, calls };
}

export function failure(code: SluiceErrorCode, retryAfterMs?: number): SluiceError {
  return new SluiceError(
    code,
    `memory: ${code}`,
    retryAfterMs === undefined ? {} : { retryAfterMs },
  );
}

/** A body of these chunks; an error in their place fails it, "stall" never ends. */
export function bodyOf(
  ...steps: readonly (Uint8Array | string | Error)[]
): ReadableStream<Uint8Array> {
  const left = [...steps];
  return createBody({
    async next() {
      const step = left.shift();
      if (step === "stall") return new Promise<never>(() => {});
      if (step instanceof Error) throw step;
      return typeof step === "string" ? new TextEncoder().encode(step) : step;
    },
  });
}

export async function readText(body: ReadableStream<Uint8Array>): Promise<string> {
  return new Response(body).text();
}
